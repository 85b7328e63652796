// The first thing that a failed job shows: what happened to which execution, where, and what it printed last.

import { get, path } from "../api.js";
import { fill, h } from "../dom.js";
import { timed } from "../elements/clock.js";
import { bytes, count, plural, slotOf } from "../format.js";
import { icon } from "../icons.js";
import { nodeLink } from "../names.js";
import { session } from "../session.js";
import { duration, millis } from "../time.js";
import { alike, isKill, lastLines, whatHappened } from "./exit.js";
import { startOf } from "./phases.js";

/** @import { Execution, Job } from "../../types.d.ts" */

const LINES = 10;
// Of an array, the failures that ended last tell enough.
const MOST_FAILURES = 100;
const GROUPS = 5;
const NODES = 3;
const FAILED = 8;

/** @param {Job} job @param {AbortSignal} signal */
export function failedPanel(job, signal) {
  const title = h("span", null, timed(job.State.Message));
  const more = h("div");
  const panel = h(
    "section",
    { class: "panel failed", "aria-label": "Why this job failed" },
    h("h2", { class: "tone-failed wrap" }, icon("cross"), title),
    more,
  );
  const show = (/** @type {Failure[]} */ failures) => {
    if (failures.length) fill(title, sentence(failures[0]));
    fill(more, failures.length ? failureList(job, failures) : null, actions(job, failures[0]));
  };
  // The message stands without its details.
  load(job, signal).then(show, () => signal.aborted || show([]));
  return panel;
}

/** The failed executions in groups of equal ones, with the moment of the start. @param {Job} job @param {AbortSignal} signal */
async function load(job, signal) {
  const url = path(["jobs", job.ID, "executions"], { order_by: "modify_time", reverse: true, limit: 1000 });
  const { Executions } = await get(url, signal);
  /** @type {Execution[]} */
  const failed = Executions.filter((/** @type {Execution} */ one) => one.ComputeState.StateType === FAILED);
  const groups = alike(failed.slice(0, MOST_FAILURES)).slice(0, GROUPS);
  return await Promise.all(groups.map(async (group) => {
    const history = path(["jobs", job.ID, "history"], { execution_id: group.first.ID, limit: 100 });
    const { History } = await get(history, signal);
    return { ...group, started: startOf(History) };
  }));
}

/** @typedef {Awaited<ReturnType<typeof load>>[number]} Failure */

/** @param {Job} job @param {Failure[]} failures */
function failureList(job, failures) {
  const seesOutput = session.may("submit", job.Namespace);
  return failures.map((failure, at) => {
    const { first } = failure;
    const { more } = whatHappened(first);
    const last = seesOutput && at === 0 ? lastLines(first.RunOutput, LINES) : null;
    const name = last?.stream === "stderr" ? "Last lines of standard error" : "Last lines of standard output";
    return h(
      "div",
      null,
      at ? h("p", { class: "message" }, sentence(failure)) : null,
      more ? h("p", { class: "wrap" }, timed(more)) : null,
      memoryNote(first),
      last
        ? [
          h("h3", null, name),
          h("pre", { class: "code", tabindex: 0, "aria-label": name }, last.lines.join("\n")),
        ]
        : null,
    );
  });
}

/** What a kill may have to do with memory; the service says so itself where it knows. @param {Execution} execution */
function memoryNote(execution) {
  const peak = execution.Usage?.MemoryPeak;
  const [given] = Object.values(execution.AllocatedResources?.Tasks ?? {});
  if (!isKill(execution) || !peak) return null;
  const limit = given?.Memory ? ` of ${bytes(given.Memory)}` : ", without a limit";
  return h("p", null, `Memory peak: ${bytes(peak)}${limit}.`);
}

/** @param {Job} job @param {Failure | undefined} failure */
function actions(job, failure) {
  const submits = session.may("submit", job.Namespace);
  const button = (/** @type {string} */ href, /** @type {string} */ word) =>
    h("a", { class: "button", href }, word);
  return h(
    "p",
    { class: "toolbar" },
    failure && submits ? button(`/jobs/${job.ID}/logs?execution=${failure.first.ID}`, "All logs") : null,
    failure ? button(`/jobs/${job.ID}/history?execution=${failure.first.ID}`, "History") : null,
    submits ? button(`/submit?from=${job.ID}`, "Edit and submit") : null,
  );
}

/** `Execution [0] exited with 3 on node-a, 5.9 s after its start`. @param {Failure} failure */
function sentence({ first, count: times, nodes, started }) {
  const { what } = whatHappened(first);
  const after = started ? `, ${duration(millis(first.ModifyTime) - started)} after its start` : "";
  const where = nodes.slice(0, NODES).flatMap((id, at) => [at ? ", " : " on ", nodeLink(id)]);
  const others = nodes.length > NODES ? ` and ${count(nodes.length - NODES)} more` : "";
  return times === 1
    ? [`Execution [${slotOf(first.Name)}] ${what}`, ...where, after]
    : [`${plural(times, "execution")} ${what}`, ...where, others, `, the last one [${slotOf(first.Name)}]`];
}
