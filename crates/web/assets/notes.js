// What a page says when it loads, has nothing to show, or could not be read.

import { h } from "./dom.js";
import { copyButton } from "./elements/copy.js";
import { icon } from "./icons.js";
import { session } from "./session.js";

/** @import { Child } from "./dom.js" */

export function loading() {
  return h("p", { class: "loading", role: "status" }, h("span", null, "Loading…"));
}

/**
 * What happened, to what, and what to do.
 * @param {unknown} error
 * @param {() => void} [again]
 */
export function failure(error, again) {
  const said = describe(error);
  return h(
    "div",
    { class: "panel failed", role: "alert" },
    h("h2", { class: "tone-failed" }, icon("cross"), said.title),
    h("p", { class: "message" }, said.text),
    said.hint ? h("p", { class: "muted" }, said.hint) : null,
    said.request
      ? h(
        "p",
        { class: "small muted" },
        "Request ",
        h("code", null, said.request),
        " in the orchestrator's log",
      )
      : null,
    again
      ? h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: again }, icon("refresh"), "Try again"),
      )
      : null,
  );
}

/** @param {unknown} error @returns {{ title: string, text: string, hint: string, request: string }} */
export function describe(error) {
  const any = /** @type {any} */ (error);
  if (any?.name === "ApiError") {
    if (any.code === "NamespaceNotFound") {
      const hint = "It does not exist, or your role does not apply to it.";
      return { title: "Namespace not found", text: any.message, hint, request: "" };
    }
    const title = any.status === 404
      ? "Not found"
      : any.status === 403
      ? "Not permitted"
      : any.status >= 500
      ? "The service could not do this"
      : "Refused";
    const details = any.details.filter((/** @type {unknown} */ d) => typeof d === "string").join("\n");
    return {
      title,
      text: details ? `${any.message}\n${details}` : any.message,
      hint: any.hint ? sentence(any.hint) : "",
      request: any.requestId,
    };
  }
  if (any?.name === "Unreachable") {
    return {
      title: "The orchestrator does not answer",
      text: `Nothing answered at ${location.origin}.`,
      hint: "This page goes on by itself as soon as the orchestrator is back.",
      request: "",
    };
  }
  return {
    title: "This page has a fault",
    text: String(any?.message ?? any),
    hint: "Reload the page; if it happens again, please report it with this text.",
    request: "",
  };
}

/** What happened and what to do, for a notice. @param {unknown} error */
export function inOneLine(error) {
  const { text, hint } = describe(error);
  return hint ? `${sentence(text.replace(/\n/g, "; "), false)} ${hint}` : text;
}

/**
 * What the reader's role does not allow, and who can help.
 * @param {string} what @param {string} role @param {string} [namespace]
 */
export function needsRole(what, role, namespace) {
  const { who } = session;
  const where = namespace ? ` in namespace ${namespace}` : "";
  return h(
    "div",
    { class: "panel waiting" },
    h("h2", null, icon("minus"), `${what} the role ${role}${where}`),
    h(
      "p",
      null,
      `You are signed in as ${who.Name} with the role ${who.Role}. An owner of the namespace, or an admin, can create a token with another role.`,
    ),
  );
}

/** @param {string} text @param {boolean} [isFirst] */
function sentence(text, isFirst = true) {
  return (isFirst ? text.charAt(0).toUpperCase() + text.slice(1) : text) + (/[.!?]$/.test(text) ? "" : ".");
}

/** @param {string} title @param {...(Child | Child[])} children */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("h2", null, title), ...children);
}

/** A line for the terminal with a button that copies it. @param {string} text @param {string} [what] */
export function command(text, what = "the command") {
  return h("div", { class: "command" }, h("pre", null, text), copyButton(() => text, `Copy ${what}`));
}
