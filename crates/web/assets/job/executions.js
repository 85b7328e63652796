// The executions of a job, each with what it printed, its exit code and its node.

import { get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { executionDetails } from "./execution.js";
import { runTime, timeAgo } from "../elements/clock.js";
import { copyLines, idText } from "../elements/copy.js";
import { moreRows } from "../elements/more.js";
import { choice } from "../elements/fields.js";
import { fill, h, reconcile, tableHead } from "../dom.js";
import { short, slotOf } from "../format.js";
import { keepFresh } from "../fresh.js";
import { executionArguments } from "../lines.js";
import { icon } from "../icons.js";
import { empty, failure, loading } from "../notes.js";
import { badge, executionLook, isEndedExecution } from "../state.js";

/** @import { Execution } from "../../types.d.ts" */
/** @import { TabContext } from "../pages/job.js" */

const PAGE = 100;
const MOST_ROWS = 500;

/** @type {Record<string, Record<string, string | boolean>>} */
const ORDERS = {
  changed: { order_by: "modify_time", reverse: true },
  created: { order_by: "create_time", reverse: false },
  state: { order_by: "state", reverse: true },
};

/** @param {TabContext} context */
export default function executions({ job, signal, query }) {
  const opened = new Set(query.get("execution") ? [query.get("execution")] : []);
  let order = "created";
  let limit = PAGE;
  const body = h("tbody");
  const table = h("table", { "aria-label": "Executions" }, head(), body);
  const more = h("div", { class: "more" });
  const box = h("div", null, loading());
  let hasMore = false;
  /** @type {Execution[]} */
  let rows = [];

  const show = () => {
    if (!rows.length) {
      return fill(
        box,
        empty("No execution yet", h("p", null, "An execution is created as soon as a node has room for it.")),
      );
    }
    if (!table.isConnected) fill(box, toolbar, table, more);
    reconcile(
      body,
      rows.flatMap((row) =>
        opened.has(row.ID) ? [{ row, detail: false }, { row, detail: true }] : [{ row, detail: false }]
      ),
      ({ row, detail }) => row.ID + (detail ? " detail" : ""),
      ({ row, detail }, before) =>
        detail ? detailRow(row, before) : executionRow(row, before, opened.has(row.ID), toggle),
    );
    const beyond = `jobctl executions ${short(job.ID)} lists all`;
    moreRows(more, { hasMore, limit, page: PAGE, most: MOST_ROWS, beyond }, (larger) => {
      limit = larger;
      refresh();
    });
  };
  const toggle = (/** @type {string} */ id) => {
    if (opened.has(id)) opened.delete(id);
    else opened.add(id);
    show();
  };
  const toolbar = h(
    "div",
    { class: "toolbar" },
    choice(
      "Order",
      [["created", "First created first"], ["changed", "Last changed first"], ["state", "Failed first"]],
      order,
      (value) => {
        order = value;
        refresh();
      },
    ),
    copyLines("the executions", () => curl("GET", url()), () => jobctl(executionArguments(job.ID, order))),
  );
  const url = () => path(["jobs", job.ID, "executions"], { limit, ...ORDERS[order] });
  const refresh = keepFresh({
    signal,
    cares: (change) => change.jobs.has(job.ID),
    load: (signal) => get(url(), signal),
    show: (page) => {
      rows = page.Executions;
      hasMore = page.NextToken !== "";
      show();
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  return box;
}

function head() {
  return tableHead(
    ["fit", "State"],
    ["", "Execution"],
    ["mid fit", "Node"],
    ["mid number", "Exit code"],
    ["mid number", "Duration"],
    ["number", "Changed"],
  );
}

/** @param {Execution} row @param {HTMLElement | undefined} before @param {boolean} open @param {(id: string) => void} toggle */
function executionRow(row, before, open, toggle) {
  const version = `${row.Revision} ${row.ComputeState.Message} ${open}`;
  if (before?.dataset.version === version) return before;
  const state = row.ComputeState.StateType;
  const ended = isEndedExecution(state);
  const exit = row.RunOutput && (state === 7 || state === 8) ? row.RunOutput.exitCode : null;
  const link = h(
    "a",
    { class: "main", href: `/jobs/${row.JobID}?execution=${row.ID}`, "aria-expanded": String(open) },
    h("span", { class: open ? "turned" : "" }, icon("chevron", 12)),
    ` [${slotOf(row.Name)}]`,
  );
  link.addEventListener("click", (event) => {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    toggle(row.ID);
  });
  const message = row.ComputeState.Message;
  const said = message &&
    !/^(completed|created for its node|offered to its node|accepted by its node|started on its node|told to run)$/
      .test(message);
  return h(
    "tr",
    { data: { version } },
    h("td", { class: "fit" }, badge(executionLook(state))),
    h(
      "td",
      null,
      link,
      " ",
      idText(row.ID),
      row.PreviousExecution ? h("span", { class: "muted small" }, " retry") : null,
      said ? h("p", { class: "reason small" }, message) : null,
    ),
    h(
      "td",
      { class: "mid fit" },
      row.NodeID
        ? h("a", { class: "id", href: `/nodes/${row.NodeID}`, title: row.NodeID }, short(row.NodeID))
        : "–",
    ),
    h(
      "td",
      { class: "mid number" },
      exit === null || exit === undefined ? "–" : h("span", { class: exit ? "tone-failed" : "" }, exit),
    ),
    h("td", { class: "mid number" }, runTime(row.CreateTime, ended ? row.ModifyTime : 0)),
    h("td", { class: "number muted" }, timeAgo(row.ModifyTime)),
  );
}

/** @param {Execution} row @param {HTMLElement | undefined} before */
function detailRow(row, before) {
  const version = String(row.Revision);
  if (before?.dataset.version === version) return before;
  return h("tr", { class: "flat detail", data: { version } }, h("td", { colspan: 6 }, executionDetails(row)));
}
