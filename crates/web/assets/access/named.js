// What secrets and credentials share: a table of names without values, the fields of a name, and deleting one.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { actionsHead, h, reconcile, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { empty, inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { session } from "../session.js";
import { field } from "./form-dialog.js";

/** @import { Secret } from "../../types.d.ts" */

/**
 * @template {Secret} T
 * @param {{
 *   title: string, list: string, word: string, one: string, none: HTMLElement,
 *   facts?: (record: T) => [string, string][], set: (record: T) => void, refresh: () => void,
 * }} kind `list` is its path, `word` its word in jobctl, and `facts` are further columns
 */
export function namedTable(kind) {
  const body = h("tbody");
  const columns = kind.facts?.(/** @type {any} */ ({ Hosts: [], Buckets: [] })) ?? [];
  const table = h(
    "table",
    { "aria-label": kind.title },
    tableHead(
      ["", "Name"],
      ["mid", "Namespace"],
      ...columns.map(([word]) => /** @type {[string, string]} */ (["mid", word])),
      ["wide number", "Version"],
      ["mid number", "Changed"],
      session.may("setSecrets") ? actionsHead() : null,
    ),
    body,
  );
  const none = empty(`No ${kind.list}`, kind.none);
  return {
    element: h("div", null, table, none),
    show: (/** @type {T[]} */ records) => {
      table.hidden = !records.length;
      none.hidden = records.length > 0;
      reconcile(body, records, ({ Namespace, Name }) => `${Namespace}/${Name}`, (record, before) => {
        const version = JSON.stringify(record);
        return before?.dataset.version === version ? before : row(kind, record, version);
      });
    },
  };
}

/** @template {Secret} T @param {Parameters<typeof namedTable<T>>[0]} kind @param {T} record @param {string} version */
function row(kind, record, version) {
  const { Name, Namespace, Version, ModifyTime } = record;
  const facts = kind.facts?.(record) ?? [];
  return h(
    "tr",
    { data: { version } },
    h(
      "td",
      null,
      h("strong", { class: "wrap" }, Name),
      h(
        "p",
        { class: "narrow row-facts small muted" },
        h("span", { class: "wrap" }, `in ${Namespace}`),
        facts.map(([, text]) => h("span", { class: "wrap" }, text)),
        h("span", null, "changed ", timeAgo(ModifyTime)),
      ),
    ),
    h("td", { class: "mid wrap" }, Namespace),
    facts.map(([, text]) => h("td", { class: "mid wrap" }, text)),
    h("td", { class: "wide number" }, String(Version)),
    h("td", { class: "mid number muted" }, timeAgo(ModifyTime)),
    session.may("setSecrets") ? h("td", { class: "fit" }, actions(kind, record)) : null,
  );
}

/** @template {Secret} T @param {Parameters<typeof namedTable<T>>[0]} kind @param {T} record */
function actions(kind, record) {
  const { Name, Namespace } = record;
  if (!session.may("setSecrets", Namespace)) return null;
  return h(
    "div",
    { class: "actions" },
    h("button", {
      type: "button",
      "aria-label": `Set ${Name} again…`,
      onclick: () => kind.set(record),
    }, "Set…"),
    h("button", {
      type: "button",
      class: "danger",
      "aria-label": `Delete ${Name}…`,
      onclick: () => void remove(kind, record),
    }, "Delete…"),
  );
}

/** @template {Secret} T @param {Parameters<typeof namedTable<T>>[0]} kind @param {T} record */
async function remove({ list, word, one, refresh }, { Name, Namespace }) {
  const url = path([list, Name], { namespace: Namespace });
  const answer = await ask({
    title: `Delete ${Name}?`,
    body: [
      h("p", null, h("strong", null, Name), ` in namespace ${Namespace}`),
      h(
        "p",
        { class: "muted" },
        "Jobs that name it wait until it exists again. Tasks that run keep what they have.",
      ),
    ],
    confirm: `Delete ${one}`,
    danger: true,
    copies: {
      curl: () => curl("DELETE", url),
      jobctl: () => jobctl([word, "delete", Name, "--namespace", Namespace]),
    },
  });
  if (!answer) return;
  try {
    await change("DELETE", url);
    notify(`${Name} is deleted`);
  } catch (error) {
    notify(`${Name} was not deleted: ${inOneLine(error)}`, "failed");
  }
  refresh();
}

/** The name and the namespace, which stay once there is something of that name. @param {{ Name: string, Namespace: string } | null} before @param {string[]} namespaces @param {string} placeholder */
export function nameFields(before, namespaces, placeholder) {
  const name = h("input", {
    type: "text",
    maxlength: 63,
    autocomplete: "off",
    spellcheck: "false",
    placeholder,
    value: before?.Name ?? "",
  });
  const first = before?.Namespace ?? (session.home || "default");
  const namespace = h(
    "select",
    null,
    namespaces.map((name) => h("option", { selected: name === first }, name)),
  );
  return {
    fields: before ? [] : [field("Name", "Name", name), field("Namespace", "Namespace", namespace)],
    name: () => name.value.trim(),
    namespace: () => namespace.value,
  };
}

/** An input whose text is hidden from people who see the screen. */
export function secretInput() {
  return h("textarea", { class: "concealed", rows: 2, autocomplete: "off", spellcheck: "false" });
}
