// A dialog with fields that stays open until the service has taken them, and shows what it objects to.

import { show } from "../dialog.js";
import { fill, h, say } from "../dom.js";
import { failure } from "../notes.js";

/** @import { Json } from "../../types.d.ts" */

/**
 * @param {{
 *   title: string, body: HTMLElement[], copies: HTMLElement, confirm: string,
 *   send: () => Promise<HTMLElement[] | null>,
 * }} form `send` returns what the dialog shows next, or null to close it
 * @returns {Promise<boolean>} whether it was sent
 */
export async function formDialog({ title, body, copies, confirm, send }) {
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" });
  const problem = h("div");
  const button = h("button", { type: "submit", class: "primary" }, confirm);
  const close = () => dialog.close("");
  let sent = false;
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "dialog-title" }, title),
    ...body,
    problem,
    h(
      "div",
      { class: "actions" },
      h("div", { class: "start" }, copies),
      h("button", { type: "button", onclick: close }, "Cancel"),
      button,
    ),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    fill(problem);
    mark(form, []);
    try {
      const next = await send();
      sent = true;
      if (!next) return close();
      // What is shown once is not lost to a stray key.
      dialog.addEventListener("cancel", (event) => event.preventDefault());
      const done = h("button", { type: "button", class: "primary", onclick: close }, "Done");
      fill(dialog, h("div", { class: "next" }, ...next, h("div", { class: "actions" }, done)));
      dialog.querySelector("button")?.focus();
    } catch (error) {
      const details = /** @type {any} */ (error)?.details ?? [];
      if (!mark(form, details)) fill(problem, failure(error));
    } finally {
      button.disabled = false;
    }
  });
  dialog.append(form);
  await show(dialog, { stays: true });
  return sent;
}

let fields = 0;

/** A field that shows problems with this path. @param {string} path @param {string} name @param {HTMLElement} input @param {string | HTMLElement} [hint] */
export function field(path, name, input, hint) {
  const id = `field-${fields += 1}`;
  input.id = id;
  input.setAttribute("aria-describedby", `${id}-problem`);
  return h(
    "div",
    { class: "field", data: { path } },
    h("label", { for: id }, name),
    input,
    typeof hint === "string" ? h("small", { class: "muted" }, hint) : hint ?? null,
    h("p", { class: "problem-text small tone-failed", id: `${id}-problem`, hidden: true }),
  );
}

/** Choices to tick, with a name. @param {string} path @param {string} name @param {HTMLElement[]} choices */
export function ticks(path, name, choices) {
  return h(
    "fieldset",
    { class: "field", data: { path } },
    h("legend", null, name),
    h("div", { class: "ticks" }, choices),
    h("p", { class: "problem-text small tone-failed", hidden: true }),
  );
}

/** @param {string} word @param {boolean} checked @param {string} [value] */
export function tick(word, checked, value = word) {
  return h("label", null, h("input", { type: "checkbox", value, prop: { checked } }), ` ${word}`);
}

/** The values that are ticked. @param {HTMLElement} box */
export function ticked(box) {
  return [...box.querySelectorAll("input")].filter((input) => input.checked).map((input) => input.value);
}

/** @param {HTMLElement} form @param {Json[]} problems @returns {boolean} whether each has a field */
function mark(form, problems) {
  const named = problems.filter((problem) => typeof problem?.Path === "string");
  /** @type {Set<Json>} */
  const placed = new Set();
  /** @type {HTMLElement | null} */
  let first = null;
  for (const box of /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-path]"))) {
    const own = named.filter(({ Path }) => Path === box.dataset.path);
    const said = /** @type {HTMLElement} */ (box.querySelector(".problem-text"));
    const input = /** @type {HTMLElement | null} */ (box.querySelector("input, select, textarea"));
    say(said, own.map((problem) => problem.Reason).join("; "));
    said.hidden = !own.length;
    if (own.length) input?.setAttribute("aria-invalid", "true");
    else input?.removeAttribute("aria-invalid");
    if (own.length) first ??= input;
    own.forEach((problem) => placed.add(problem));
  }
  first?.focus();
  return problems.length > 0 && placed.size === problems.length;
}
