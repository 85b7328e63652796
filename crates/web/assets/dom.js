// Builds elements from text and attributes; nothing here takes markup.

import { visible } from "./format.js";

/** Attributes that a reader sees or hears. */
const SHOWN = new Set(["title", "aria-label"]);

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any> | null} [attributes] `on…` listens, `class` and the rest are attributes, `data` and `prop` are maps
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) set(element, name, value);
  element.append(...nodes(children));
  return element;
}

/** @param {HTMLElement} element @param {string} name @param {any} value */
function set(element, name, value) {
  if (value === undefined || value === null || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (name === "prop") Object.assign(element, value);
  else if (name === "data") Object.assign(element.dataset, value);
  else if (SHOWN.has(name)) element.setAttribute(name, visible(String(value)));
  else element.setAttribute(name, value === true ? "" : String(value));
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  return children.flat()
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => child instanceof Node ? child : visible(String(child)));
}

/** Replaces what an element holds. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
}

/** Sets text only if it differs, so that selections and focus survive. @param {Element} element @param {string} said */
export function say(element, said) {
  const text = visible(said);
  if (element.textContent !== text) element.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Node} children
 */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/**
 * Brings the children of `parent` in line with `items` and keeps the elements of items that stay.
 * @template T
 * @param {HTMLElement} parent
 * @param {T[]} items
 * @param {(item: T) => string} key
 * @param {(item: T, before: HTMLElement | undefined) => HTMLElement} build returns `before` if it still holds
 */
export function reconcile(parent, items, key, build) {
  /** @type {Map<string, HTMLElement>} */
  const known = new Map();
  for (const child of parent.children) {
    if (child instanceof HTMLElement && child.dataset.key !== undefined) known.set(child.dataset.key, child);
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = key(item);
    const before = known.get(name);
    const element = build(item, before);
    element.dataset.key = name;
    known.delete(name);
    if (before && before !== element && before.contains(document.activeElement)) {
      moveFocus(before, element);
    }
    if (before === at && before !== element && before) {
      at = before.nextElementSibling;
      before.replaceWith(element);
      continue;
    }
    if (before && before !== element) before.remove();
    if (at === element) at = element.nextElementSibling;
    else parent.insertBefore(element, at);
  }
  while (at) {
    const next = at.nextElementSibling;
    at.remove();
    at = next;
  }
}

/** Gives the focus of a replaced element to its counterpart. @param {HTMLElement} before @param {HTMLElement} after */
function moveFocus(before, after) {
  const focusable = "a, button, input, select, textarea, [tabindex]";
  const index = [...before.querySelectorAll(focusable)].indexOf(
    /** @type {Element} */ (document.activeElement),
  );
  queueMicrotask(() => {
    const target = after.querySelectorAll(focusable)[index];
    if (target instanceof HTMLElement) target.focus({ preventScroll: true });
  });
}

/** The element with this id of the page's frame. @param {string} id */
export function frame(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no #${id}`);
  return element;
}

/** The head of a table: of each column its class and its name, or a cell as it is; null is left out. @param {...([string, string] | HTMLElement | null)} columns */
export function tableHead(...columns) {
  const cells = columns.map((column) =>
    Array.isArray(column) ? h("th", { class: column[0], scope: "col" }, column[1]) : column
  );
  return h("thead", null, h("tr", null, cells));
}

/** The head of a column of buttons, named for those who cannot see them. */
export function actionsHead() {
  return h("th", { class: "fit" }, h("span", { class: "hidden-text" }, "Actions"));
}
