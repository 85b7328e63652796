// Access: who may do what, as tokens and namespaces.

import { get, path } from "../api.js";
import { namespaceTable, putNamespace } from "../access/namespaces.js";
import { accessPage, fromTimeToTime } from "../access/tabs.js";
import { createToken, tokenTable } from "../access/tokens.js";
import { curl, jobctl } from "../commands.js";
import { fill, h } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { keepFresh } from "../fresh.js";
import { failure, loading, needsRole } from "../notes.js";
import { session } from "../session.js";

/** @import { Namespace, Shown, Visit } from "../../types.d.ts" */

/** @param {Visit} visit @returns {Shown} */
export default function access({ signal }) {
  const body = h("div", null, loading());
  const element = accessPage("/access", body);
  if (!session.may("tokens")) {
    fill(body, needsRole("Tokens need", "owner"));
    return { title: "Access", element };
  }
  /** @type {Namespace[]} */
  let known = [];
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) => Promise.all([get(path(["tokens"]), signal), get(path(["namespaces"]), signal)]),
    show: ([{ Tokens }, { Namespaces }]) => {
      known = Namespaces;
      tokens.show(Tokens);
      namespaces.show(Namespaces);
      if (!content.isConnected) fill(body, content);
    },
    fail: (error) => fill(body, failure(error, refresh)),
  });
  const tokens = tokenTable(refresh);
  const namespaces = namespaceTable(refresh);
  const content = h(
    "div",
    { class: "manages" },
    note(),
    section("Tokens", "tokens", ["token", "list"], tokens.element, {
      word: "Create a token…",
      act: () => void createToken(known, refresh),
    }),
    section(
      "Namespaces",
      "namespaces",
      ["namespace", "list"],
      namespaces.element,
      session.may("namespaces")
        ? { word: "Create a namespace…", act: () => void putNamespace(null, refresh) }
        : null,
    ),
  );
  fromTimeToTime(signal, refresh);
  return { title: "Access", element };
}

/**
 * @param {string} title @param {string} list its path @param {string[]} words for jobctl @param {HTMLElement} body
 * @param {{ word: string, act: () => void } | null} create
 */
function section(title, list, words, body, create) {
  return h(
    "section",
    { class: "section" },
    h(
      "header",
      { class: "tall" },
      h("h2", null, title),
      h(
        "div",
        { class: "actions end" },
        copyLines(`the list of ${list}`, () => curl("GET", path([list])), () => jobctl(words)),
        create ? h("button", { type: "button", class: "primary", onclick: create.act }, create.word) : null,
      ),
    ),
    body,
  );
}

function note() {
  if (session.who.TokenID) return null;
  return h(
    "p",
    { class: "quiet-note" },
    "This service takes every caller as an admin. Tokens are asked for once it is started with ",
    h("code", null, 'auth = "required"'),
    ".",
  );
}
