// The concurrency groups that the reader sees, with who holds them; for owners also changing and deleting one.

import { change, get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask, show } from "../dialog.js";
import { actionsHead, h, reconcile, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { count, plural } from "../format.js";
import { empty, inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { session } from "../session.js";
import { field, formDialog } from "./form-dialog.js";
import { nameFields } from "./named.js";

/** @import { Group, GroupJob } from "../../types.d.ts" */

/** @param {() => void} refresh */
export function groupTable(refresh) {
  const body = h("tbody");
  const table = h(
    "table",
    { "aria-label": "Concurrency groups" },
    tableHead(
      ["", "Name"],
      ["mid", "Namespace"],
      ["number", "Limit"],
      ["number", "Running"],
      ["number", "Waiting jobs"],
      ["wide number", "Changed"],
      actionsHead(),
    ),
    body,
  );
  const none = empty(
    "No groups",
    h(
      "p",
      null,
      "A concurrency group limits how many executions of all jobs that name it run at the same time.",
    ),
  );
  return {
    element: h("div", null, table, none),
    show: (/** @type {Group[]} */ groups) => {
      table.hidden = !groups.length;
      none.hidden = groups.length > 0;
      reconcile(body, groups, ({ Namespace, Name }) => `${Namespace}/${Name}`, (group, before) => {
        const version = JSON.stringify(group);
        return before?.dataset.version === version ? before : row(group, version, refresh);
      });
    },
  };
}

/** @param {Group} group @param {string} version @param {() => void} refresh */
function row(group, version, refresh) {
  const { Name, Namespace, Limit, Running, ModifyTime } = group;
  return h(
    "tr",
    { data: { version } },
    h(
      "td",
      null,
      h("strong", { class: "wrap" }, Name),
      h("p", { class: "narrow small muted wrap" }, `in ${Namespace}`),
    ),
    h("td", { class: "mid wrap" }, Namespace),
    h("td", { class: "number" }, Limit ? count(Limit) : "0, paused"),
    h("td", { class: "number" }, count(Running)),
    h("td", { class: "number" }, waiting(group)),
    h("td", { class: "wide number muted" }, timeAgo(ModifyTime)),
    h("td", { class: "fit" }, actions(group, refresh)),
  );
}

/** @param {Group} group */
function waiting({ Waiting, WaitingIsMore }) {
  return `${count(Waiting)}${WaitingIsMore ? "+" : ""}`;
}

/** @param {Group} group @param {() => void} refresh */
function actions(group, refresh) {
  const { Name, Namespace } = group;
  const own = session.may("setSecrets", Namespace);
  return h(
    "div",
    { class: "actions" },
    h("button", {
      type: "button",
      "aria-label": `Jobs of ${Name}…`,
      onclick: () => void showJobs(group),
    }, "Jobs…"),
    own
      ? h("button", {
        type: "button",
        "aria-label": `Change ${Name}…`,
        onclick: () => void putGroup(group, [Namespace], refresh),
      }, "Change…")
      : null,
    own
      ? h("button", {
        type: "button",
        class: "danger",
        "aria-label": `Delete ${Name}…`,
        onclick: () => void remove(group, refresh),
      }, "Delete…")
      : null,
  );
}

/** Shows who holds the group and who waits for it. @param {Group} listed */
async function showJobs({ Name, Namespace }) {
  try {
    const { Group } = await get(path(["groups", Name], { namespace: Namespace }));
    const group = /** @type {Group} */ (Group);
    const dialog = h(
      "dialog",
      { "aria-labelledby": "dialog-title" },
      h(
        "form",
        { method: "dialog" },
        h("h2", { id: "dialog-title", class: "wrap" }, `Jobs of ${Name}`),
        jobs(
          `${plural(group.Running, "execution")} of ${count(group.Limit)}`,
          group.Holders ?? [],
          group.Holding,
        ),
        jobs(`${waiting(group)} waiting, the next ones first`, group.Waiters ?? [], group.Waiting),
        h("div", { class: "actions" }, h("button", { type: "submit" }, "Close")),
      ),
    );
    await show(dialog);
  } catch (error) {
    notify(`The jobs of ${Name} cannot be read: ${inOneLine(error)}`, "failed");
  }
}

/** @param {string} title @param {GroupJob[]} listed @param {number} all */
function jobs(title, listed, all) {
  const rest = all - listed.length;
  return h(
    "section",
    { class: "section" },
    h("h3", null, title),
    h(
      "ul",
      null,
      listed.map(({ JobID, Name, Executions }) =>
        h(
          "li",
          { class: "wrap" },
          h("a", { href: `/jobs/${JobID}` }, Name),
          Executions ? `, ${plural(Executions, "execution")}` : null,
        )
      ),
      rest > 0 && listed.length ? h("li", { class: "muted" }, `and ${count(rest)} more`) : null,
    ),
  );
}

/** Creates a group, or changes its limit. @param {Group | null} before @param {string[]} namespaces @param {() => void} refresh */
export async function putGroup(before, namespaces, refresh) {
  const named = nameFields(before, namespaces, "db");
  const limit = h("input", {
    type: "number",
    min: 0,
    max: 1000000,
    value: before ? `${before.Limit}` : "",
  });
  const url = () => path(["groups", named.name()], { namespace: named.namespace() });
  const Limit = () => limit.value === "" ? null : Number(limit.value);
  await formDialog({
    title: before ? `Limit of ${before.Name}` : "Create a concurrency group",
    body: [
      ...named.fields,
      field(
        "Limit",
        "Limit",
        limit,
        "Executions that may run at the same time. A lower limit stops nothing; 0 pauses.",
      ),
    ],
    copies: copyLines(
      "putting the group",
      () => curl("PUT", url(), { body: { Limit: Limit() } }),
      () =>
        jobctl([
          "group",
          "put",
          named.name(),
          "--namespace",
          named.namespace(),
          "--limit",
          limit.value || "N",
        ]),
    ),
    confirm: before ? "Change" : "Create",
    send: async () => {
      await change("PUT", url(), { Limit: Limit() });
      notify(`Group ${named.name()} has limit ${limit.value}`);
      refresh();
      return null;
    },
  });
}

/** @param {Group} group @param {() => void} refresh */
async function remove({ Name, Namespace }, refresh) {
  const url = path(["groups", Name], { namespace: Namespace });
  const answer = await ask({
    title: `Delete ${Name}?`,
    body: [
      h("p", null, h("strong", null, Name), ` in namespace ${Namespace}`),
      h("p", { class: "muted" }, "Only a group that no live job names can be deleted."),
    ],
    confirm: "Delete the group",
    danger: true,
    copies: {
      curl: () => curl("DELETE", url),
      jobctl: () => jobctl(["group", "delete", Name, "--namespace", Namespace]),
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
