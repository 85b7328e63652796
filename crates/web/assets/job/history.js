// The history of a job: every change of the job and its executions, in order.

import { get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { copyLines } from "../elements/copy.js";
import { eventHead, eventRow } from "../elements/event.js";
import { addEvent } from "../elements/fold.js";
import { moreRows } from "../elements/more.js";
import { choice } from "../elements/fields.js";
import { fill, h, reconcile } from "../dom.js";
import { keepFresh } from "../fresh.js";
import { historyArguments } from "../lines.js";
import { empty, failure, loading } from "../notes.js";
import { go } from "../router.js";

/** @import { HistoryEvent } from "../../types.d.ts" */
/** @import { Fold } from "../elements/fold.js" */
/** @import { TabContext } from "../pages/job.js" */

const PAGE = 200;
const MOST_ROWS = 1000;

/** @param {TabContext} context */
export default function history({ job, signal, query }) {
  const execution = query.get("execution") ?? "";
  let kind = "all";
  let limit = PAGE;
  const body = h("tbody");
  const table = h("table", { "aria-label": "History" }, eventHead(false), body);
  const more = h("div", { class: "more" });
  const box = h("div", null, loading());
  const toolbar = h(
    "div",
    { class: "toolbar" },
    execution
      ? h("button", { type: "button", onclick: () => go(`/jobs/${job.ID}/history`) }, "Show all executions")
      : choice(
        "Kind",
        [["all", "Job and executions"], ["job", "The job alone"], ["execution", "Executions alone"]],
        kind,
        (value) => {
          kind = value;
          refresh();
        },
      ),
    copyLines(
      "the history",
      () => curl("GET", url()),
      () => jobctl(historyArguments(job.ID, { kind, execution })),
    ),
  );
  const url = () =>
    path(["jobs", job.ID, "history"], {
      limit,
      event_type: kind === "all" ? "" : kind,
      execution_id: execution,
    });
  const refresh = keepFresh({
    signal,
    cares: (change) => change.jobs.has(job.ID),
    load: (signal) => get(url(), signal),
    show: (page) => {
      /** @type {HistoryEvent[]} */
      const events = page.History;
      if (!events.length) {
        return fill(
          box,
          toolbar,
          empty("No event", h("p", null, "Events older than the retention time are removed.")),
        );
      }
      if (!table.isConnected) fill(box, toolbar, table, more);
      /** @type {Fold[]} */
      const rows = [];
      for (const event of events) addEvent(rows, event);
      reconcile(
        body,
        rows,
        ({ events: [first] }) => `${first.ExecutionID} ${first.NewRevision} ${first.Type}`,
        (row, before) => eventRow(row, false, before),
      );
      const beyond = "choose an execution to see all of its events";
      const hasMore = page.NextToken !== "";
      moreRows(more, { hasMore, limit, page: PAGE, most: MOST_ROWS, beyond }, (larger) => {
        limit = larger;
        refresh();
      });
    },
    fail: (error) => fill(box, toolbar, failure(error, refresh)),
  });
  return box;
}
