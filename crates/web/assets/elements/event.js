// One event of a history as a row of a table.

import { absolute, clock, millis } from "../time.js";
import { h, tableHead } from "../dom.js";
import { short } from "../format.js";
import { badge, executionLook, jobLook, nodeWord } from "../state.js";

/** @import { HistoryEvent } from "../../types.d.ts" */

/** @param {boolean} withJob whether the rows belong to many jobs or nodes */
export function eventHead(withJob) {
  return tableHead(
    ["fit", "Time"],
    ["fit", "Became"],
    ["", "What happened"],
    withJob ? ["mid fit", "Job"] : null,
    ["mid fit", "Execution"],
    ["mid fit", "Node"],
  );
}

/** @param {HistoryEvent} event @param {boolean} withJob */
export function eventRow(event, withJob) {
  const at = millis(event.Time);
  return h(
    "tr",
    null,
    h("td", { class: "fit muted mono", title: absolute(at) }, clock(at)),
    h("td", { class: "fit" }, became(event)),
    h("td", { class: "wrap" }, event.Comment || "–"),
    withJob ? link("jobs", event.JobID) : null,
    link("executions", event.ExecutionID),
    link("nodes", event.NodeID),
  );
}

/** @param {HistoryEvent} event */
function became(event) {
  if (event.NodeState) return badge(nodeWord(event.NodeState.New));
  if (event.JobState) return badge(jobLook(event.JobState.New));
  if (event.ExecutionState) return badge(executionLook(event.ExecutionState.New));
  return "–";
}

/** @param {string} kind @param {string} id */
function link(kind, id) {
  return h(
    "td",
    { class: "mid fit" },
    id
      ? h("a", { class: "id", href: `/${kind}/${id}`, title: id }, short(id))
      : h("span", { class: "muted" }, "–"),
  );
}
