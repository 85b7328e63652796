// Copies text to the clipboard, also where the browser has no clipboard interface because the page came over HTTP.

import { fill, h } from "../dom.js";
import { icon } from "../icons.js";
import { notify } from "../notice.js";
import { short } from "../format.js";

const CONFIRMED_MS = 1500;

/** @param {string} text @returns {Promise<boolean>} */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const area = h("textarea", { class: "hidden-text", "aria-hidden": "true", prop: { value: text } });
  const before = document.activeElement;
  (document.querySelector("dialog[open]") ?? document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus({ preventScroll: true });
  return done;
}

/** @param {() => string | Promise<string>} text @param {string} label */
export function copyButton(text, label) {
  const button = h(
    "button",
    { class: "copy", type: "button", title: label, "aria-label": label },
    icon("copy"),
  );
  button.addEventListener("click", async (event) => {
    event.preventDefault();
    event.stopPropagation();
    if (!await copyText(await text())) {
      return notify(
        "The browser does not let this page copy. Select the text and copy it yourself.",
        "failed",
      );
    }
    fill(button, icon("done"));
    button.classList.add("tone-completed");
    notify("Copied", "completed", CONFIRMED_MS);
    setTimeout(() => {
      fill(button, icon("copy"));
      button.classList.remove("tone-completed");
    }, CONFIRMED_MS);
  });
  return button;
}

/**
 * A button that copies lines for a program.
 * @param {string} program @param {string} what the lines do
 * @param {() => string | null} build null if there is nothing to copy, which it has said
 */
function copyAs(program, what, build) {
  return h(
    "button",
    {
      type: "button",
      class: "quiet",
      title: `Copy as ${program}`,
      "aria-label": `Copy as ${program}: ${what}`,
      onclick: async () => {
        const text = build();
        if (text === null) return;
        if (await copyText(text)) notify(`Copied as ${program}`);
        else notify("The browser does not let this page copy.", "failed");
      },
    },
    icon("copy"),
    program,
  );
}

/**
 * Buttons that copy what the page does here, as lines for a terminal.
 * @param {string} what @param {() => string | null} curl @param {() => string | null} jobctl
 */
export function copyLines(what, curl, jobctl) {
  return h("span", { class: "copies" }, copyAs("curl", what, curl), copyAs("jobctl", what, jobctl));
}

/** The short form of an ID with a button that copies the full one. @param {string} id @param {string} [href] */
export function idText(id, href) {
  const text = href
    ? h("a", { class: "id", href, title: id }, short(id))
    : h("span", { class: "id", title: id }, short(id));
  return h("span", { class: "id-text" }, text, copyButton(() => id, `Copy ${id}`));
}
