// The executions of a job in the order of their indexes, each with its node, its exit code and what it printed.

import { get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { buckets } from "./buckets.js";
import { redraw } from "./columns.js";
import { executionDetails } from "./execution.js";
import { runTime, timeAgo, timed } from "../elements/clock.js";
import { copyButton, copyLines } from "../elements/copy.js";
import { moreRows } from "../elements/more.js";
import { fill, h, reconcile } from "../dom.js";
import { plural, short, slotOf } from "../format.js";
import { keepFresh } from "../fresh.js";
import { executionArguments } from "../lines.js";
import { icon } from "../icons.js";
import { nodeLink, whenNamed } from "../names.js";
import { empty, failure, loading } from "../notes.js";
import { badge, executionLook, isEndedExecution } from "../state.js";
import { sorted } from "./order.js";
import { outcomes } from "./outcomes.js";
import { Sparks } from "./sparks.js";
import { usageSection } from "./usage.js";

/** @import { Execution } from "../../types.d.ts" */
/** @import { TabContext } from "../pages/job.js" */
/** @import { Column, Order } from "./order.js" */

const PAGE = 100;
const MOST_ROWS = 500;
const FAILED = [4, 8];

/** @type {[Column, string, string][]} */
const COLUMNS = [
  ["state", "fit", "State"],
  ["index", "", "Execution"],
  ["node", "mid fit", "Node"],
  ["usage", "wide number", "Usage"],
  ["exit", "mid number", "Exit code"],
  ["duration", "mid number", "Duration"],
  ["changed", "number", "Changed"],
];

/** @param {TabContext} context */
export default function executions({ job, signal, query }) {
  const opened = new Set(query.get("execution") ? [query.get("execution")] : []);
  /** @type {Order} */
  let order = { by: "index", down: false };
  let onlyFailed = query.has("failed");
  const indexes = query.get("index") ?? "";
  // Of a job with more executions than are read, the failed ones are asked for.
  let isNarrowed = false;
  let limit = PAGE;
  const body = h("tbody");
  const head = h("thead");
  const table = h("table", { "aria-label": "Executions" }, head, body);
  const picture = h("div");
  const ranges = buckets(job, indexes, signal);
  const usage = h("div");
  const sparks = new Sparks();
  const more = h("div", { class: "more" });
  const note = h("p", { class: "quiet-note", hidden: true });
  const box = h("div", null, loading());
  let hasMore = false;
  /** @type {Execution[]} */
  let rows = [];

  const isPart = () => hasMore || isNarrowed || indexes !== "";
  const show = () => {
    if (!rows.length && !isNarrowed && !indexes) {
      return fill(
        box,
        empty(
          "No execution yet",
          h(
            "p",
            null,
            "An execution is created as soon as nothing holds it back and a node has room for it.",
          ),
        ),
      );
    }
    if (!table.isConnected) fill(box, toolbar, picture, usage, table, note, more);
    fill(head, headRow(order, sort));
    // Of more executions than are read, only the counts are known.
    if (!isPart()) redraw(picture, outcomes(rows, false, reveal));
    else if (!ranges.element.isConnected) fill(picture, ranges.element);
    if (!usage.firstChild) {
      fill(usage, usageSection("jobs", job.ID, signal, (answer) => sparks.take(answer, body)));
    }
    const failed = rows.filter((row) => FAILED.includes(row.ComputeState.StateType));
    failures.disabled = !failed.length && !onlyFailed;
    failures.textContent = failed.length ? `Failed only (${failed.length})` : "Failed only";
    failures.setAttribute("aria-pressed", String(onlyFailed));
    const shown = sorted(onlyFailed ? failed : rows, order);
    reconcile(
      body,
      shown.flatMap((row) =>
        opened.has(row.ID) ? [{ row, detail: false }, { row, detail: true }] : [{ row, detail: false }]
      ),
      ({ row, detail }) => row.ID + (detail ? " detail" : ""),
      ({ row, detail }, before) =>
        detail
          ? detailRow(row, before, signal)
          : executionRow(row, before, opened.has(row.ID), toggle, sparks),
    );
    note.hidden = !hasMore;
    note.textContent = `Of the ${plural(rows.length, "execution")} that ${
      rows.length === 1 ? "is" : "are"
    } read so far${onlyFailed ? `, ${failed.length} failed` : ""}.`;
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
  const reveal = (/** @type {string} */ id) => {
    onlyFailed = false;
    opened.add(id);
    show();
    body.querySelector(`[data-key="${id}"]`)?.scrollIntoView({ block: "center" });
  };
  // Only what is read can be sorted, so as much as a page may hold is read.
  const readMore = () => {
    if (!hasMore || limit >= MOST_ROWS) return;
    limit = MOST_ROWS;
    refresh();
  };
  const sort = (/** @type {Column} */ by) => {
    order = { by, down: order.by === by ? !order.down : ["usage", "duration", "changed"].includes(by) };
    readMore();
    show();
  };
  const failures = h("button", {
    type: "button",
    "aria-pressed": String(onlyFailed),
    onclick: () => {
      onlyFailed = !onlyFailed;
      const narrows = onlyFailed && isPart();
      if (narrows !== isNarrowed) {
        isNarrowed = narrows;
        refresh();
      }
      show();
    },
  });
  const toolbar = h(
    "div",
    { class: "toolbar" },
    failures,
    copyLines(
      "the executions",
      () => curl("GET", url()),
      () => jobctl(executionArguments(job.ID, order.by, indexes)),
    ),
  );
  // A service that is restarted for days has more than are read, and the latest matter.
  const isEndless = ["service", "daemon"].includes(job.Type);
  const url = () =>
    path(["jobs", job.ID, "executions"], {
      limit,
      order_by: isEndless ? "create_time" : "index",
      reverse: isEndless,
      state: isNarrowed ? "Failed,Declined" : "",
      index: indexes,
    });
  const refresh = keepFresh({
    signal,
    cares: (change) => change.jobs.has(job.ID),
    load: (signal) => get(url(), signal),
    show: (page) => {
      rows = page.Executions;
      hasMore = page.NextToken !== "";
      if (isPart()) void ranges.refresh();
      show();
      whenNamed(rows.map((row) => row.NodeID), () => signal.aborted || show());
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  return box;
}

/** @param {Order} order @param {(by: Column) => void} sort */
function headRow(order, sort) {
  const cells = COLUMNS.map(([by, kind, word]) => {
    const isSorted = order.by === by;
    return h(
      "th",
      {
        class: kind,
        scope: "col",
        "aria-sort": isSorted ? (order.down ? "descending" : "ascending") : null,
      },
      h("button", { type: "button", class: "sort", onclick: () => sort(by) }, word),
    );
  });
  return h("tr", null, cells);
}

/** @param {Execution} row @param {HTMLElement | undefined} before @param {boolean} open @param {(id: string) => void} toggle @param {Sparks} sparks */
function executionRow(row, before, open, toggle, sparks) {
  const version = `${row.Revision} ${row.ComputeState.Message} ${open}`;
  if (before?.dataset.version === version) return before;
  const state = row.ComputeState.StateType;
  const ended = isEndedExecution(state);
  // The API says -1 where no process ran.
  const code = row.RunOutput && (state === 7 || state === 8) ? row.RunOutput.exitCode : -1;
  const exit = code === undefined || code < 0
    ? "–"
    : h("span", { class: code ? "tone-failed" : "" }, String(code));
  const link = h(
    "a",
    {
      class: "main",
      href: `/jobs/${row.JobID}?execution=${row.ID}`,
      "aria-expanded": String(open),
      title: row.ID,
    },
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
    !/^(completed|created for its node|offered to its node|accepted by its node|started on its node|run requested|told to run)$/
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
      copyButton(() => row.ID, `Copy ${row.ID}`),
      row.PreviousExecution ? h("span", { class: "muted small" }, " retry") : null,
      row.NodeID ? h("span", { class: "narrow small muted" }, " on ", nodeLink(row.NodeID)) : null,
      said ? h("p", { class: "reason small" }, timed(message)) : null,
    ),
    h("td", { class: "mid fit" }, row.NodeID ? nodeLink(row.NodeID) : "–"),
    h("td", { class: "wide number small muted" }, sparks.cell(row)),
    h("td", { class: "mid number" }, exit),
    h("td", { class: "mid number" }, runTime(row.CreateTime, ended ? row.ModifyTime : 0)),
    h("td", { class: "number muted" }, timeAgo(row.ModifyTime)),
  );
}

/** @param {Execution} row @param {HTMLElement | undefined} before @param {AbortSignal} signal */
function detailRow(row, before, signal) {
  const version = String(row.Revision);
  if (before?.dataset.version === version) return before;
  const cell = h("td", { colspan: COLUMNS.length }, executionDetails(row, signal));
  return h("tr", { class: "flat detail", data: { version } }, cell);
}
