// The choice of a namespace: those that the reader may see, and all of them.

import { get, path } from "../api.js";
import { fill, h } from "../dom.js";
import { choice, typed } from "../elements/fields.js";
import { session } from "../session.js";

/** @import { Namespace } from "../../types.d.ts" */

/** @returns {Promise<string[]>} none if they cannot be read: the choice still works */
export async function namespaceNames() {
  try {
    const { Namespaces } = await get(path(["namespaces"]));
    return Namespaces.map((/** @type {Namespace} */ namespace) => namespace.Name);
  } catch {
    return [];
  }
}

/** Names to choose from, for an input that takes any other as well. @param {string} id */
export function namespaceList(id) {
  const list = h("datalist", { id });
  void namespaceNames().then((names) => fill(list, names.map((value) => h("option", { value }))));
  return list;
}

/** @param {string} value `*` for all @param {(value: string) => void} changed @returns {HTMLElement[]} */
export function namespaceField(value, changed) {
  if (!session.who.TokenID) {
    // Where no token is asked for, jobs may be in namespaces that no one has created.
    const text = value === "*" ? "" : value;
    const input = typed("Namespace", "Namespace", text, "text", (name) => changed(name || "*"));
    input.setAttribute("list", "namespaces");
    return [input, namespaceList("namespaces")];
  }
  const named = (
    /** @type {string} */ name,
  ) => /** @type {[string, string]} */ ([name, name === "*" ? "All namespaces" : name]);
  const select = choice("Namespace", [...new Set(["*", value])].map(named), value, (name) => changed(name));
  void namespaceNames().then((names) => {
    const chosen = select.value;
    const all = ["*", ...new Set([...names, chosen])].filter((name, at) => name !== "*" || !at);
    fill(select, all.map(named).map(([name, word]) => h("option", { value: name }, word)));
    select.value = chosen;
  });
  return [select];
}
