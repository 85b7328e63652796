// Events of a history as rows of a table; equal ones that follow one another are one row.

import { absolute, clock, millis } from "../time.js";
import { h, tableHead } from "../dom.js";
import { count } from "../format.js";
import { executionLink, jobLink, nodeLink } from "../names.js";
import { badge, executionLook, jobLook, nodeWord } from "../state.js";

/** @import { HistoryEvent, Look } from "../../types.d.ts" */

/** Equal events, the first one first. @typedef {{ key: string, id: number, events: HistoryEvent[] }} Fold */

// Equal events are one row if they come within this time of each other.
const TOGETHER_MS = 2000;
// How far back an equal event is searched for: events of other executions come in between.
const NEAR = 12;
const NAMED = 3;
const COLUMNS = 6;

let folds = 0;

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

/** What equal events have in common. @param {HistoryEvent} event */
function keyOf(event) {
  const change = event.ExecutionState ?? event.JobState ?? event.NodeState;
  // Only executions of one job do the same thing in numbers.
  return JSON.stringify([event.Type, event.JobID, event.JobID ? "" : event.NodeID, change, event.Comment]);
}

/**
 * Adds an event to rows, to one of the last if that is equal.
 * @param {Fold[]} rows the last one last @param {HistoryEvent} event @returns {Fold} the row that it is in
 */
export function addEvent(rows, event) {
  const key = keyOf(event);
  for (let at = rows.length - 1; event.ExecutionState && at >= Math.max(0, rows.length - NEAR); at -= 1) {
    const row = rows[at];
    const last = row.events[row.events.length - 1];
    if (row.key === key && Math.abs(millis(event.Time) - millis(last.Time)) <= TOGETHER_MS) {
      row.events.push(event);
      return row;
    }
  }
  const row = { key, id: folds += 1, events: [event] };
  rows.push(row);
  return row;
}

/** @param {Fold} fold @param {boolean} withJob @param {HTMLElement} [before] */
export function eventRow(fold, withJob, before) {
  const { events } = fold;
  const version = String(events.length);
  if (before?.dataset.version === version) return before;
  const [event] = events;
  const last = events[events.length - 1];
  const look = becameLook(event);
  // Where the newest come first, a row stands where its last event does.
  const at = millis((withJob ? last : event).Time);
  const nodes = [...new Map(events.map((one) => [one.NodeID, one])).values()].filter(({ NodeID }) => NodeID);
  const many = events.length > 1 ? `${count(events.length)} ` : "";
  return h(
    "tr",
    { data: { version } },
    h("td", { class: "fit muted mono", title: absolute(at) }, clock(at)),
    h(
      "td",
      { class: "fit" },
      look ? badge({ ...look, word: many + (many ? look.word.toLowerCase() : look.word) }) : "–",
    ),
    h("td", { class: "wrap" }, event.Comment || "–", narrow(fold, withJob)),
    withJob
      ? h("td", { class: "mid fit" }, event.JobID ? jobLink(event.JobID, event.JobName) : none())
      : null,
    h("td", { class: "mid" }, listed(events.filter(({ ExecutionID }) => ExecutionID), execution)),
    h("td", { class: "mid fit" }, listed(nodes, (one) => nodeLink(one.NodeID, one.NodeName))),
  );
}

/** Whose event it is, where the columns that say so are hidden. @param {Fold} fold @param {boolean} withJob */
function narrow({ events }, withJob) {
  const [event] = events;
  return h(
    "p",
    { class: "narrow small muted" },
    withJob && event.JobID ? [jobLink(event.JobID, event.JobName), " "] : null,
    event.ExecutionID ? listed(events, execution) : null,
    event.NodeID && events.length === 1 ? [" on ", nodeLink(event.NodeID, event.NodeName)] : null,
  );
}

/** @param {HistoryEvent} event */
function execution(event) {
  return executionLink(event.ExecutionID, event.Index === undefined ? undefined : `[${event.Index}]`);
}

/** @param {HistoryEvent[]} events @param {(event: HistoryEvent) => HTMLElement} link */
function listed(events, link) {
  if (!events.length) return none();
  const links = events.slice(0, NAMED).flatMap((event, at) => [at ? ", " : "", link(event)]);
  return [...links, events.length > NAMED ? ` and ${count(events.length - NAMED)} more` : ""];
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
