// Equal events that follow one another become one row.

import { millis } from "../time.js";

/** @import { HistoryEvent } from "../../types.d.ts" */

/** Equal events: the first ones and the last one of all. @typedef {{ key: string, id: number, events: HistoryEvent[], count: number }} Fold */

// Equal events are one row if they come within this time of each other.
const TOGETHER_MS = 2000;
// How far back an equal event is searched for: events of other executions come in between.
const NEAR = 12;
// Of more equal events than this those between the first and the last are only counted: a feed stays
// open for days.
const MOST_FOLDED = 100;

let folds = 0;

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
      row.count += 1;
      if (row.events.length < MOST_FOLDED) row.events.push(event);
      else row.events[MOST_FOLDED - 1] = event;
      return row;
    }
  }
  const row = { key, id: folds += 1, events: [event], count: 1 };
  rows.push(row);
  return row;
}
