// Short notices in the corner, read out by screen readers.

import { frame, h } from "./dom.js";
import { icon } from "./icons.js";

const ICONS = { completed: "check", failed: "cross", waiting: "dotted" };
// Errors stay until they are closed; the rest may be missed.
const STAYS_MS = 6000;
const MOST = 4;

/**
 * @param {string} text
 * @param {"completed" | "failed" | "waiting"} [tone]
 * @param {number} [forMs]
 */
export function notify(text, tone = "completed", forMs = STAYS_MS) {
  const box = frame("notices");
  const notice = h(
    "div",
    { class: "notice" },
    h("span", { class: `tone-${tone}` }, icon(ICONS[tone])),
    h("p", null, text),
    h("button", {
      class: "quiet icon",
      type: "button",
      "aria-label": "Close",
      onclick: () => notice.remove(),
    }, icon("close", 14)),
  );
  while (box.children.length >= MOST) box.firstElementChild?.remove();
  box.append(notice);
  if (tone !== "failed") setTimeout(() => notice.remove(), forMs);
}
