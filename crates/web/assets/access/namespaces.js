// The namespaces that the reader sees: the list; for admins also creating, changing and deleting one.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { actionsHead, h, reconcile, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { session } from "../session.js";
import { field, formDialog, tick, ticked, ticks } from "./form-dialog.js";
import { KINDS, namespaceArguments, permissionText } from "./lines.js";
import { quotaInputs, shareText, usedOfQuota } from "./quota.js";

/** @import { Namespace, Permissions } from "../../types.d.ts" */
/** @import { Kind } from "./lines.js" */

/** @param {() => void} refresh */
export function namespaceTable(refresh) {
  const manages = session.may("namespaces");
  const body = h("tbody");
  const table = h(
    "table",
    { "aria-label": "Namespaces" },
    tableHead(
      ["", "Namespace"],
      ["mid", "Its jobs may use"],
      ["wide number", "Changed"],
      manages ? actionsHead() : null,
    ),
    body,
  );
  return {
    element: table,
    show: (/** @type {Namespace[]} */ namespaces) =>
      reconcile(body, namespaces, (namespace) => namespace.Name, (namespace, before) => {
        const version = JSON.stringify(namespace);
        return before?.dataset.version === version ? before : row(namespace, version, manages, refresh);
      }),
  };
}

/** @param {Namespace} namespace @param {string} version @param {boolean} manages @param {() => void} refresh */
function row(namespace, version, manages, refresh) {
  const { Name, Description, Permissions, Nodes, MaxPriority, ModifyTime } = namespace;
  const used = usedOfQuota(namespace);
  const permitted = [
    permissionText(Permissions),
    ...(Nodes ? [`nodes: ${Nodes}`] : []),
    ...(MaxPriority < 100 ? [`priority: up to ${MaxPriority}`] : []),
  ].join("; ");
  return h(
    "tr",
    { data: { version } },
    h(
      "td",
      null,
      h("a", { class: "main", href: `/jobs?namespace=${encodeURIComponent(Name)}` }, Name),
      Description ? h("p", { class: "reason small" }, Description) : null,
      h("p", { class: "reason small" }, `uses ${[...used, shareText(namespace)].join(", ")}`),
      h("p", { class: "narrow small muted wrap" }, `may use ${permitted}`),
    ),
    h("td", { class: "mid wrap" }, permitted),
    h("td", { class: "wide number muted" }, timeAgo(ModifyTime)),
    manages ? h("td", { class: "fit" }, actions(namespace, refresh)) : null,
  );
}

/** @param {Namespace} namespace @param {() => void} refresh */
function actions(namespace, refresh) {
  const { Name } = namespace;
  return h(
    "div",
    { class: "actions" },
    h("button", {
      type: "button",
      "aria-label": `Edit ${Name}…`,
      onclick: () => void putNamespace(namespace, refresh),
    }, "Edit…"),
    // The usual namespace always exists.
    Name === "default" ? null : h("button", {
      type: "button",
      class: "danger",
      "aria-label": `Delete ${Name}…`,
      onclick: () => void remove(Name, refresh),
    }, "Delete…"),
  );
}

/** @param {string} name @param {() => void} refresh */
async function remove(name, refresh) {
  const answer = await ask({
    title: `Delete ${name}?`,
    body: [
      h("p", null, "Namespace ", h("strong", null, name)),
      h(
        "p",
        { class: "muted" },
        "Only a namespace without jobs, even finished ones, and without tokens can be deleted.",
      ),
    ],
    confirm: "Delete the namespace",
    danger: true,
    copies: {
      curl: () => curl("DELETE", path(["namespaces", name])),
      jobctl: () => jobctl(["namespace", "delete", name]),
    },
  });
  if (!answer) return;
  try {
    await change("DELETE", path(["namespaces", name]));
    notify(`Namespace ${name} is deleted`);
  } catch (error) {
    notify(`Namespace ${name} was not deleted: ${inOneLine(error)}`, "failed");
  }
  refresh();
}

/** Creates a namespace, or changes it. @param {Namespace | null} before @param {() => void} refresh */
export async function putNamespace(before, refresh) {
  const name = h("input", {
    type: "text",
    maxlength: 63,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "ci",
    value: before?.Name ?? "",
  });
  const description = h("textarea", { rows: 2, maxlength: 1024, prop: { value: before?.Description ?? "" } });
  const nodes = h("input", {
    type: "text",
    maxlength: 1024,
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "all nodes",
    value: before?.Nodes ?? "",
  });
  const priority = h("input", {
    type: "number",
    min: 0,
    max: 100,
    placeholder: "usual",
    value: before ? `${before.MaxPriority}` : "",
  });
  const weight = h("input", {
    type: "number",
    min: 1,
    max: 1000,
    placeholder: "1",
    value: before && before.Weight !== 1 ? `${before.Weight}` : "",
  });
  const groups = KINDS.map(([kind, words]) => permitted(kind, words, before?.Permissions[kind]));
  const quota = quotaInputs(before?.Quota);
  const capabilities = tick("of root in containers", before?.Permissions.Capabilities !== false);
  const asked = () => ({
    Name: name.value.trim(),
    Description: description.value.trim(),
    Nodes: nodes.value.trim(),
    ...(priority.value ? { MaxPriority: Number(priority.value) } : {}),
    ...(quota.read() ? { Quota: quota.read() } : {}),
    ...(weight.value ? { Weight: Number(weight.value) } : {}),
    Permissions: /** @type {Permissions} */ ({
      ...Object.fromEntries(groups.flatMap(({ kind, read }) => {
        const words = read();
        return words ? [[kind, words]] : [];
      })),
      ...(ticked(capabilities).length ? {} : { Capabilities: false }),
    }),
  });
  const body = () => {
    const { Name: _, ...body } = asked();
    return body;
  };
  await formDialog({
    title: before ? `Namespace ${before.Name}` : "Create a namespace",
    body: [
      before ? [] : [field("", "Name", name, "Letters, digits, '-', '_' and '.'")],
      [field("Description", "Description", description)],
      [field("Nodes", "Only on nodes", nodes, "By labels that operators give, like pool in (a,b)")],
      groups.map((group) => group.element),
      [field(
        "MaxPriority",
        "Highest priority",
        priority,
        "0 to 100; usual is 50 where credentials are required",
      )],
      quota.inputs.map(({ key, label, input }) => field(`Quota.${key}`, `Quota: ${label}`, input)),
      [field("Weight", "Weight", weight, "Its part of the cluster where several namespaces wait, 1 to 1000")],
      [ticks("Permissions.Capabilities", "Capabilities", [capabilities])],
    ].flat(),
    copies: copyLines(
      before ? "saving the namespace" : "creating the namespace",
      () => curl("PUT", path(["namespaces", asked().Name]), { body: body() }),
      () => jobctl(namespaceArguments(asked())),
    ),
    confirm: before ? "Save" : "Create",
    send: async () => {
      const { Name } = asked();
      if (!Name) throw missingName();
      await change("PUT", path(["namespaces", Name]), body());
      notify(before ? `Namespace ${Name} is changed` : `Namespace ${Name} is created`);
      refresh();
      return null;
    },
  });
}

function missingName() {
  return Object.assign(new Error("a name is missing"), { details: [{ Path: "", Reason: "is required" }] });
}

/** Everything of a kind, or some words of it. @param {Kind} kind @param {string[]} words @param {string[]} [chosen] */
function permitted(kind, words, chosen) {
  const some = h(
    "select",
    { "aria-label": `${kind} that jobs may use` },
    h("option", { value: "" }, "everything"),
    h("option", { value: "some", selected: chosen !== undefined }, "only these"),
  );
  const all = [...words, ...(chosen ?? []).filter((word) => !words.includes(word))];
  const typed = h("input", {
    type: "text",
    "aria-label": `Permitted ${kind.toLowerCase()}, separated by commas`,
    spellcheck: "false",
    value: chosen?.join(", ") ?? "",
  });
  const boxes = h(
    "div",
    { class: "ticks" },
    words.length ? all.map((word) => tick(word, chosen?.includes(word) ?? true, word)) : typed,
  );
  const adapt = () => boxes.hidden = !some.value;
  some.addEventListener("change", adapt);
  adapt();
  return {
    kind,
    element: ticks(`Permissions.${kind}`, kind, [some, boxes]),
    read: () =>
      !some.value ? undefined : words.length ? ticked(boxes) : typed.value.split(/[\s,]+/).filter(Boolean),
  };
}
