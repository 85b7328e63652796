// Events of a history as rows of a table; equal ones share a row.

import { absolute, clock, millis } from "../time.js";
import { h, tableHead } from "../dom.js";
import { timed } from "./clock.js";
import { count } from "../format.js";
import { executionLink, jobLink, nodeLink } from "../names.js";
import { badge, executionLook, jobLook, nodeWord } from "../state.js";

/** @import { HistoryEvent, Look } from "../../types.d.ts" */
/** @import { Fold } from "./fold.js" */

const NAMED = 3;
const COLUMNS = 6;

/** @param {boolean} withJob whether the rows belong to many jobs or nodes */
export function eventHead(withJob) {
  return tableHead(
    ["fit", "Time"],
    ["fit", "Became"],
    ["", "What happened"],
    withJob ? ["mid fit", "Job"] : null,
    ["mid", "Execution"],
    ["mid fit", "Node"],
  );
}

/** What it became, or null. @param {HistoryEvent} event @returns {Look | null} */
export function becameLook(event) {
  if (event.NodeState) return nodeWord(event.NodeState.New);
  if (event.JobState) return jobLook(event.JobState.New);
  return event.ExecutionState ? executionLook(event.ExecutionState.New) : null;
}

/** @param {Fold} fold @param {boolean} withJob @param {HTMLElement} [before] */
export function eventRow(fold, withJob, before) {
  const { events } = fold;
  const version = String(fold.count);
  if (before?.dataset.version === version) return before;
  const [event] = events;
  const last = events[events.length - 1];
  const look = becameLook(event);
  // Where the newest come first, a row stands where its last event does.
  const at = millis((withJob ? last : event).Time);
  const nodes = [...new Map(events.map((one) => [one.NodeID, one])).values()].filter(({ NodeID }) => NodeID);
  const many = fold.count > 1 ? `${count(fold.count)} ` : "";
  return h(
    "tr",
    { data: { version } },
    h("td", { class: "fit muted mono", title: absolute(at) }, clock(at)),
    h(
      "td",
      { class: "fit" },
      look ? badge({ ...look, word: many + (many ? look.word.toLowerCase() : look.word) }) : "–",
    ),
    h("td", { class: "wrap" }, timed(event.Comment || "–"), narrow(fold, withJob)),
    withJob
      ? h("td", { class: "mid fit" }, event.JobID ? jobLink(event.JobID, event.JobName) : none())
      : null,
    h("td", { class: "mid" }, event.ExecutionID ? listed(events, fold.count, execution) : none()),
    h("td", { class: "mid fit" }, listed(nodes, nodes.length, (one) => nodeLink(one.NodeID, one.NodeName))),
  );
}

/** Whose event it is, where the columns that say so are hidden. @param {Fold} fold @param {boolean} withJob */
function narrow({ events, count: times }, withJob) {
  const [event] = events;
  return h(
    "p",
    { class: "narrow small muted" },
    withJob && event.JobID ? [jobLink(event.JobID, event.JobName), " "] : null,
    event.ExecutionID ? listed(events, times, execution) : null,
    event.NodeID && times === 1 ? [" on ", nodeLink(event.NodeID, event.NodeName)] : null,
  );
}

/** @param {HistoryEvent} event */
function execution(event) {
  return executionLink(event.ExecutionID, event.Index === undefined ? undefined : `[${event.Index}]`);
}

/** @param {HistoryEvent[]} events @param {number} all @param {(event: HistoryEvent) => HTMLElement} link */
function listed(events, all, link) {
  if (!events.length) return none();
  const links = events.slice(0, NAMED).flatMap((event, at) => [at ? ", " : "", link(event)]);
  return h("span", { class: "listed" }, links, all > NAMED ? ` and ${count(all - NAMED)} more` : "");
}

function none() {
  return h("span", { class: "muted" }, "–");
}

/** Stands for events that are gone. @param {{ From: number, To: number }} gap */
export function gapRow(gap) {
  return h(
    "tr",
    { class: "flat" },
    h(
      "td",
      { colspan: COLUMNS, class: "tone-attention" },
      `Events ${gap.From} to ${gap.To} are gone: retention removed them.`,
    ),
  );
}
