// The head of the pages of Access: their tabs, of which a role sees its own.

import { h } from "../dom.js";
import { session } from "../session.js";

/** @import { Action } from "../session.js" */

/** @type {[string, string, Action][]} */
const TABS = [
  ["/access", "Tokens and namespaces", "tokens"],
  ["/access/secrets", "Secrets", "secrets"],
  ["/access/groups", "Groups", "secrets"],
  ["/access/join-tokens", "Join tokens", "operate"],
  ["/access/audit", "Audit log", "audit"],
];

/** @param {string} current @param {HTMLElement} body */
export function accessPage(current, body) {
  const tabs = TABS.filter(([, , action]) => session.may(action)).map(([href, word]) =>
    h("a", { href, "aria-current": href === current ? "page" : null }, word)
  );
  return h(
    "section",
    null,
    h("header", { class: "title" }, h("h1", null, "Access")),
    tabs.length ? h("nav", { class: "tabs", "aria-label": "Access" }, tabs) : null,
    body,
  );
}

// No stream says when a token is used or another admin changes something.
const EVERY_MS = 15_000;

/** Reads a page again from time to time while it is visible. @param {AbortSignal} signal @param {() => void} refresh */
export function fromTimeToTime(signal, refresh) {
  const timer = setInterval(() => document.hidden || refresh(), EVERY_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}
