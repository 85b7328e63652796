// Turns executions and their events into the phases of each slot: offered, preparing or fetching, running.

import { slotOf } from "../format.js";
import { isEndedExecution } from "../state.js";
import { millis } from "../time.js";

/** @import { Execution, HistoryEvent } from "../../types.d.ts" */

/** @typedef {{ kind: "offered" | "preparing" | "fetching" | "running", from: number, to: number }} Phase `to` is 0 while it lasts */
/** @typedef {{ id: string, node: string, state: number, message: string, phases: Phase[], from: number, to: number }} Attempt */
/** @typedef {{ slot: number, attempts: Attempt[] }} Slot */

/**
 * @param {Execution[]} executions
 * @param {HistoryEvent[]} events of executions, in order
 * @returns {Slot[]} in the order of their numbers
 */
export function slots(executions, events) {
  /** @type {Map<string, HistoryEvent[]>} */
  const byExecution = new Map();
  for (const event of events) {
    const list = byExecution.get(event.ExecutionID);
    if (list) list.push(event);
    else byExecution.set(event.ExecutionID, [event]);
  }
  /** @type {Map<string, Slot>} */
  const found = new Map();
  for (const execution of [...executions].sort((a, b) => a.CreateTime - b.CreateTime)) {
    const number = slotOf(execution.Name);
    // The executions of ops and daemon jobs all have the number of their node's slot; their node tells them apart.
    const key = `${number} ${execution.Name.endsWith("]") ? "" : execution.NodeID}`;
    let slot = found.get(key);
    if (!slot) found.set(key, slot = { slot: number, attempts: [] });
    slot.attempts.push(attempt(execution, byExecution.get(execution.ID) ?? []));
  }
  return [...found.values()].sort((a, b) => a.slot - b.slot);
}

/** @param {Execution} execution @param {HistoryEvent[]} events @returns {Attempt} */
function attempt(execution, events) {
  const state = execution.ComputeState.StateType;
  const from = millis(execution.CreateTime);
  const to = isEndedExecution(state) ? millis(execution.ModifyTime) : 0;
  const at = (/** @type {number} */ wanted) => {
    const event = events.find((e) =>
      e.ExecutionState?.New === wanted && e.ExecutionState.Previous !== wanted
    );
    return event ? millis(event.Time) : 0;
  };
  const accepted = at(3);
  const started = at(5);
  /** @type {Phase[]} */
  const phases = [{ kind: "offered", from, to: accepted || started || to }];
  // Only what takes a while to fetch reports its progress; the rest of the time prepares the run.
  const fetches = events.some((e) => isFetch(e));
  if (accepted) {
    phases.push({ kind: fetches ? "fetching" : "preparing", from: accepted, to: started || to });
  }
  if (started) phases.push({ kind: "running", from: started, to });
  return {
    id: execution.ID,
    node: execution.NodeID,
    state,
    message: execution.ComputeState.Message,
    phases,
    from,
    to,
  };
}

/** Whether an accepted execution reports what it is fetching. @param {HistoryEvent} event */
function isFetch({ ExecutionState: change, Comment }) {
  return change?.Previous === 3 && change.New === 3 && /^(pulling|fetching) /.test(Comment);
}

/** When the process started, in Unix milliseconds; 0 if none did. @param {HistoryEvent[]} history of one execution */
export function startOf(history) {
  const event = history.find(({ ExecutionState }) => ExecutionState?.New === 5);
  return event ? millis(event.Time) : 0;
}

/** Round distances between ticks, in milliseconds. */
const STEPS = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  1e3,
  2e3,
  5e3,
  1e4,
  3e4,
  6e4,
  3e5,
  6e5,
  18e5,
  36e5,
  108e5,
  216e5,
  864e5,
  6048e5,
];

/** Ticks at a round distance, about `most` of them. @param {number} span @param {number} most */
export function ticks(span, most) {
  const step = STEPS.find((candidate) => span / candidate <= most) ?? span;
  const all = [];
  for (let at = 0; at <= span; at += step) all.push(at);
  return all;
}
