// Keys: g and a letter go to a page, j and k move through rows, / and Ctrl-K search, ? explains.

import { show } from "./dialog.js";
import { h } from "./dom.js";
import { prefer, preferences } from "./preferences.js";
import { go } from "./router.js";
import { session } from "./session.js";

/** @type {Record<string, () => string>} */
const PAGES = {
  o: () => "/",
  j: () => "/jobs",
  s: () => "/submit",
  n: () => "/nodes",
  e: () => "/events",
  a: () => session.access || "/access",
};
// How long the second key of a pair may take.
const PAIR_MS = 1500;

let prefix = 0;

/** @param {() => void} search puts the focus into the search box */
export function startKeys(search) {
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    if (event.ctrlKey || event.metaKey) {
      if (preferences.palette && event.key.toLowerCase() === "k" && !event.shiftKey) handled(event, search);
      return;
    }
    if (typing(event.target)) return;
    if (event.key === "?") return handled(event, showKeys);
    if (!preferences.keys) return;
    const paired = Date.now() - prefix < PAIR_MS;
    prefix = 0;
    if (paired && event.key in PAGES) {
      return handled(event, () => go(PAGES[event.key]()));
    }
    if (event.key === "g") prefix = Date.now();
    else if (event.key === "/") handled(event, search);
    else if (event.key === "j") handled(event, () => move(1));
    else if (event.key === "k") handled(event, () => move(-1));
    else if (event.key === "x") handled(event, select);
  });
}

/** @param {KeyboardEvent} event @param {() => void} act */
function handled(event, act) {
  event.preventDefault();
  act();
}

/** @param {EventTarget | null} target */
function typing(target) {
  return target instanceof HTMLElement &&
    (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) &&
        !(target instanceof HTMLInputElement && target.type === "checkbox"));
}

/** The links of the rows that j and k move through. @returns {HTMLElement[]} */
function rows() {
  const links = /** @type {HTMLElement[]} */ ([...document.querySelectorAll("main a.main")]);
  return links.filter((link) => link instanceof HTMLElement && link.offsetParent);
}

/** @param {number} by */
function move(by) {
  const links = rows();
  if (!links.length) return;
  const row = document.activeElement?.closest("tr");
  const at = links.findIndex((link) =>
    link === document.activeElement || (row && link.closest("tr") === row)
  );
  const next =
    links[Math.min(links.length - 1, Math.max(0, at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

function select() {
  const box = document.activeElement?.closest("tr")?.querySelector("input[type=checkbox]");
  if (box instanceof HTMLInputElement) box.click();
}

export function showKeys() {
  /** @type {[string[], string][]} */
  const keys = [
    [["/"], "Search for a job, an execution or a node"],
    [["Ctrl", "K"], "Search from anywhere, also while typing"],
    [["g", "o"], "Overview"],
    [["g", "j"], "Jobs"],
    ...(session.may("submit") ? [/** @type {[string[], string]} */ ([["g", "s"], "Submit"])] : []),
    [["g", "n"], "Nodes"],
    [["g", "e"], "Events"],
    ...(session.access ? [/** @type {[string[], string]} */ ([["g", "a"], "Access"])] : []),
    [["j"], "Next row"],
    [["k"], "Previous row"],
    [["Enter"], "Open the row"],
    [["x"], "Select the row"],
    [["?"], "This list"],
  ];
  const dialog = h("dialog", { "aria-labelledby": "keys-title" });
  const letters = h("input", { type: "checkbox", prop: { checked: preferences.keys } });
  letters.addEventListener("change", () => prefer({ keys: letters.checked }));
  const palette = h("input", { type: "checkbox", prop: { checked: preferences.palette } });
  palette.addEventListener("change", () => prefer({ palette: palette.checked }));
  dialog.append(
    h("h2", { id: "keys-title" }, "Keys"),
    h(
      "table",
      null,
      h(
        "tbody",
        null,
        keys.map(([names, what]) =>
          h(
            "tr",
            { class: "flat" },
            h("th", { scope: "row" }, names.flatMap((name) => [h("kbd", null, name), " "])),
            h("td", null, what),
          )
        ),
      ),
    ),
    h(
      "p",
      { class: "toolbar" },
      h("label", null, letters, " Keys of one letter are on"),
      h("label", null, palette, " Ctrl-K is on"),
      h("button", { type: "button", class: "end", onclick: () => dialog.close("") }, "Close"),
    ),
  );
  void show(dialog);
}
