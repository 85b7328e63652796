// Views of the list of jobs: filters that the reader named, kept in this browser.

import { show } from "../dialog.js";
import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { go } from "../router.js";

const KEY = "views";
// A list that one looks through; more would need a search.
const MOST = 30;

/** @typedef {{ name: string, query: string }} View `query` is that of the list's URL */

/** @param {Storage} [storage] @returns {View[]} in order of their names */
export function savedViews(storage = localStorage) {
  try {
    const views = JSON.parse(storage.getItem(KEY) ?? "[]");
    return views.filter((/** @type {View} */ view) =>
      typeof view?.name === "string" && typeof view?.query === "string"
    );
  } catch {
    return [];
  }
}

/**
 * Saves a view, in place of one of the same name.
 * @param {View} view @param {Storage} [storage] @returns {string} why it is not saved, or ""
 */
export function saveView(view, storage = localStorage) {
  const others = savedViews(storage).filter(({ name }) => name !== view.name);
  if (others.length >= MOST) return `There are ${MOST} views already: remove one first.`;
  return store([...others, view].sort((a, b) => a.name.localeCompare(b.name)), storage);
}

/** @param {string} name @param {Storage} [storage] */
export function removeView(name, storage = localStorage) {
  return store(savedViews(storage).filter((view) => view.name !== name), storage);
}

/** @param {View[]} views @param {Storage} storage */
function store(views, storage) {
  try {
    storage.setItem(KEY, JSON.stringify(views));
    return "";
  } catch {
    return "This browser keeps nothing for this page, so the view is not saved.";
  }
}

/** @param {() => URLSearchParams} current the filters that would be saved */
export function viewsButton(current) {
  return h("button", { type: "button", onclick: () => showViews(current().toString()) }, "Views…");
}

/** @param {string} query */
function showViews(query) {
  const dialog = h("dialog", { "aria-labelledby": "views-title" });
  const list = h("ul", { class: "names" });
  const name = h("input", { type: "text", maxlength: 60, autocomplete: "off", required: true });
  const problem = h("p", { class: "small tone-failed", role: "status" });
  const update = () =>
    fill(
      list,
      savedViews().map((view) =>
        h(
          "li",
          { class: "toolbar" },
          h("a", {
            href: `/jobs?${view.query}`,
            onclick: (/** @type {Event} */ event) => {
              event.preventDefault();
              dialog.close("");
              go(`/jobs?${view.query}`);
            },
          }, view.name),
          h("button", {
            type: "button",
            class: "quiet icon end",
            "aria-label": `Remove ${view.name}`,
            title: "Remove",
            onclick: () => {
              fill(problem, removeView(view.name));
              update();
            },
          }, icon("close")),
        )
      ),
    );
  const form = h(
    "form",
    { method: "dialog" },
    h("label", { class: "field" }, h("span", null, "Save these filters as"), name),
    problem,
    h(
      "div",
      { class: "actions" },
      h("button", { type: "button", onclick: () => dialog.close("") }, "Close"),
      h("button", { type: "submit", class: "primary" }, "Save"),
    ),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!name.value.trim()) return;
    const reason = saveView({ name: name.value.trim(), query });
    fill(problem, reason);
    if (!reason) name.value = "";
    update();
  });
  update();
  dialog.append(h("h2", { id: "views-title" }, "Views of the list of jobs"), list, form);
  void show(dialog);
}
