// Dialogs: a question before something is destroyed, which names what it is about.

import { h } from "./dom.js";
import { copyLines } from "./elements/copy.js";

/** @import { Child } from "./dom.js" */

/**
 * @param {{
 *   title: string,
 *   body: (Child | Child[])[],
 *   confirm: string,
 *   danger?: boolean,
 *   reason?: string,
 *   copies: { curl: (reason: string) => string, jobctl: (reason: string) => string },
 * }} question `reason` labels a field for a text that goes into the history; `copies` do the same in a terminal
 * @returns {Promise<{ reason: string } | null>} null if the reader declined
 */
export function ask(question) {
  const input = question.reason ? h("input", { type: "text", maxlength: 1024, autocomplete: "off" }) : null;
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const said = () => input?.value.trim() ?? "";
  const { curl, jobctl } = question.copies;
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title" }, question.title),
    ...question.body,
    input ? h("label", { class: "field" }, h("span", null, question.reason), input) : null,
    h(
      "div",
      { class: "actions" },
      h("div", { class: "start" }, copyLines(question.confirm, () => curl(said()), () => jobctl(said()))),
      h("button", { type: "button", autofocus: !input, onclick: () => dialog.close("") }, "Cancel"),
      h(
        "button",
        { type: "submit", value: "yes", class: `primary ${question.danger ? "danger" : ""}` },
        question.confirm,
      ),
    ),
  );
  // form-action 'none' forbids submissions, so the dialog closes by itself.
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    dialog.close("yes");
  });
  dialog.append(form);
  return show(dialog).then((answer) => answer === "yes" ? { reason: said() } : null);
}

/**
 * Shows a dialog until it closes; focus returns to where it was.
 * @param {HTMLDialogElement} dialog
 * @param {{ stays?: boolean }} [options] whether it stays open after a click outside
 * @returns {Promise<string>}
 */
export function show(dialog, { stays } = {}) {
  const before = document.activeElement;
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog && !stays) dialog.close("");
  });
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
      resolve(dialog.returnValue);
    });
  });
}
