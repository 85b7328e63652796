// A picture of columns that are links: the tab key comes to one of them, the arrow keys to all.

import { fill, h } from "../dom.js";

/** Where each key leads from a column. @type {Record<string, (at: number, last: number) => number>} */
const STEPS = {
  ArrowLeft: (at) => Math.max(at - 1, 0),
  ArrowRight: (at, last) => Math.min(at + 1, last),
  Home: () => 0,
  End: (_, last) => last,
};

/**
 * @param {string} label what the picture shows, in words
 * @param {string} kind
 * @param {HTMLAnchorElement[]} links
 */
export function columns(label, kind, links) {
  const enter = (/** @type {number} */ next) =>
    links.forEach((link, at) => link.tabIndex = at === next ? 0 : -1);
  enter(0);
  const box = h("div", { class: `outcomes ${kind}`, role: "group", "aria-label": label }, links);
  const columnOf = (/** @type {Event} */ { target }) => links.findIndex((link) => link === target);
  box.addEventListener("focusin", (event) => enter(columnOf(event)));
  box.addEventListener("keydown", (event) => {
    const at = columnOf(event);
    const step = STEPS[event.key];
    if (at < 0 || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    links[step(at, links.length - 1)].focus();
  });
  return box;
}

/** Draws a picture anew; the column that had the focus has it again. @param {HTMLElement} box @param {(Node | null)[]} parts */
export function redraw(box, ...parts) {
  const at = columnsOf(box).findIndex((link) => link === document.activeElement);
  fill(box, parts);
  focusColumn(box, at);
}

/** @param {HTMLElement} box @param {number} at */
export function focusColumn(box, at) {
  columnsOf(box)[at]?.focus({ preventScroll: true });
}

/** @param {HTMLElement} box @returns {HTMLElement[]} */
function columnsOf(box) {
  return [...box.querySelectorAll(".outcomes a")].filter((link) => link instanceof HTMLElement);
}
