// The order of a table of executions: by index at first, or by a column that the reader chooses.

import { nodeText } from "../names.js";
import { slotOf } from "../format.js";
import { isEndedExecution } from "../state.js";
import { millis } from "../time.js";

/** @import { Execution } from "../../types.d.ts" */

/** @typedef {"index" | "state" | "node" | "usage" | "exit" | "duration" | "changed"} Column */
/** @typedef {{ by: Column, down: boolean }} Order */

/** What needs someone comes first: failed, running, waiting, then what went well. @type {Record<number, number>} */
const RANKS = { 8: 0, 4: 1, 5: 2, 3: 3, 2: 4, 1: 5, 7: 6, 9: 7, 6: 8 };

/** How long it lasted, or lasts. @param {Execution} row @param {number} now */
export function lasted(row, now) {
  const end = isEndedExecution(row.ComputeState.StateType) ? millis(row.ModifyTime) : now;
  return end - millis(row.CreateTime);
}

/** @type {Record<Column, (row: Execution, now: number) => number | string>} */
const KEYS = {
  index: (row) => slotOf(row.Name),
  state: (row) => RANKS[row.ComputeState.StateType] ?? 9,
  node: (row) => row.NodeID ? nodeText(row.NodeID) : "",
  usage: (row) => row.Usage?.CPU || (row.Usage?.CPUSeconds ?? 0),
  exit: (row) => row.RunOutput?.exitCode ?? -1,
  duration: lasted,
  changed: (row) => row.ModifyTime,
};

/**
 * Sorted rows; equal ones by index, and attempts of one index in their order.
 * @param {Execution[]} rows @param {Order} order @param {number} [now]
 */
export function sorted(rows, { by, down }, now = Date.now()) {
  const key = KEYS[by];
  const compare = (/** @type {number | string} */ a, /** @type {number | string} */ b) =>
    typeof a === "string" ? a.localeCompare(String(b), undefined, { numeric: true }) : a - Number(b);
  return [...rows].sort((a, b) =>
    (down ? -1 : 1) * compare(key(a, now), key(b, now)) ||
    slotOf(a.Name) - slotOf(b.Name) || a.CreateTime - b.CreateTime
  );
}

/**
 * The last attempt of each index, in order; those of ops and daemon jobs are told apart by their nodes.
 * @param {Execution[]} rows @returns {Execution[]}
 */
export function lastAttempts(rows) {
  /** @type {Map<string, Execution>} */
  const last = new Map();
  for (const row of sorted(rows, { by: "index", down: false })) {
    last.set(row.Name.endsWith("]") ? row.Name : `${row.Name} ${row.NodeID}`, row);
  }
  return [...last.values()];
}
