// One row of the list of jobs.

import { runTime, timeAgo, timed } from "../elements/clock.js";
import { idText } from "../elements/copy.js";
import { h } from "../dom.js";
import { count, plural } from "../format.js";
import { session } from "../session.js";
import { badge, isEnded, jobLook } from "../state.js";

/** @import { Job } from "../../types.d.ts" */

// A message longer than this shows its first lines, and all of it with focus.
const LONG = 600;
// What a message adds to the state's own word is worth a line; these say nothing more.
export const OBVIOUS =
  /^(an execution runs|its execution completed|all \d+ executions? completed|submitted|placed|)$/;

/**
 * @param {Job} job
 * @param {HTMLElement | undefined} before
 * @param {{
 *   selected: boolean, gone: boolean, select: (on: boolean) => void,
 *   alike: number, open: boolean, toggle: () => void,
 * }} state `alike` counts the rows below that failed in the same way, shown if `open`
 */
export function jobRow(job, before, state) {
  const version = `${job.Revision} ${
    JSON.stringify(job.Executions)
  } ${state.selected} ${state.gone} ${state.alike} ${state.open}`;
  if (before?.dataset.version === version) return before;
  const box = h("input", {
    type: "checkbox",
    "aria-label": `Select ${job.Name}`,
    prop: { checked: state.selected },
  });
  box.addEventListener("change", () => state.select(box.checked));
  return h(
    "tr",
    {
      class: state.gone ? "gone" : "",
      data: { version },
      title: state.gone ? "No longer matches the filters" : null,
    },
    session.may("submit") ? h("td", { class: "mid fit" }, box) : null,
    h("td", { class: "mid fit" }, badge(jobLook(job.State.StateType))),
    h(
      "td",
      null,
      h("a", { class: "main", href: `/jobs/${job.ID}` }, job.Name),
      " ",
      idText(job.ID),
      narrowFacts(job),
      reason(job),
      state.alike
        ? h("button", {
          type: "button",
          class: "quiet alike",
          "aria-expanded": String(state.open),
          onclick: state.toggle,
        }, `${plural(state.alike, "more job")} failed in the same way`)
        : null,
    ),
    h("td", { class: "wide wrap" }, job.Namespace),
    h("td", { class: "wide" }, job.Type),
    h("td", { class: "mid number" }, progress(job)),
    h("td", { class: "mid number" }, ran(job)),
    h("td", { class: "mid number muted" }, timeAgo(job.CreateTime)),
  );
}

/** @param {Job} job */
export function reason(job) {
  const text = job.State.Message;
  if (OBVIOUS.test(text)) return null;
  return h("p", { class: `reason small ${text.length > LONG ? "long" : ""}` }, timed(text));
}

/** @param {Job} job */
function narrowFacts(job) {
  return h(
    "p",
    { class: "narrow row-facts small muted" },
    badge(jobLook(job.State.StateType)),
    h("span", null, job.Type),
    h("span", null, progress(job)),
    timeAgo(job.CreateTime),
  );
}

/** How far the executions of a job are. @param {Job} job */
export function progress(job) {
  const counts = job.Executions;
  if (!counts) return "–";
  const service = job.Type === "service" || job.Type === "daemon";
  const done = service ? counts.Running : counts.Completed;
  const title = `${count(counts.Waiting)} waiting, ${count(counts.Running)} running, ${
    count(counts.Completed)
  } completed, ${count(counts.Failed)} failed`;
  return h(
    "span",
    { title },
    counts.Failed ? h("span", { class: "tone-failed" }, `${count(counts.Failed)} failed · `) : null,
    `${count(done)} / ${count(counts.Total)}`,
  );
}

/** @param {Job} job */
export function ran(job) {
  if (job.StartTime === undefined) return "–";
  if (!job.StartTime) {
    return isEnded(job.State.StateType)
      ? h("span", { class: "muted" }, "never ran")
      : h("span", { class: "muted" }, "not yet");
  }
  return runTime(job.StartTime, job.EndTime || (isEnded(job.State.StateType) ? job.ModifyTime : 0));
}
