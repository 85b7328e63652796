// Stops jobs after a question that names them.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { h } from "../dom.js";
import { plural, short } from "../format.js";
import { inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { stopArguments } from "../lines.js";
import { isEnded } from "../state.js";

/** @import { Graph, Job } from "../../types.d.ts" */

// Requests in flight; the scheduler takes them one by one anyway.
const AT_ONCE = 8;

/** @param {Job[]} jobs @returns {Promise<boolean>} whether the reader agreed */
export async function stopJobs(jobs) {
  const one = jobs.length === 1;
  const answer = await ask({
    title: one ? `Stop ${jobs[0].Name}?` : `Stop ${jobs.length} jobs?`,
    body: [
      h(
        "ul",
        { class: "names" },
        jobs.map((job) =>
          h("li", null, h("strong", null, job.Name), " ", h("span", { class: "id" }, short(job.ID)))
        ),
      ),
      h(
        "p",
        { class: "muted" },
        "Processes get SIGTERM, then SIGKILL after the agent's grace period. A stopped job does not start again.",
      ),
    ],
    reason: "Reason, for the history",
    confirm: one ? "Stop the job" : `Stop ${jobs.length} jobs`,
    danger: true,
    copies: {
      curl: (reason) => jobs.map((job) => curl("DELETE", path(["jobs", job.ID], { reason }))).join("\n"),
      jobctl: (reason) => jobctl(stopArguments(jobs.map((job) => job.ID), reason)),
    },
  });
  if (!answer) return false;
  let stopped = 0;
  const waiting = [...jobs];
  const work = async () => {
    for (let job = waiting.shift(); job; job = waiting.shift()) {
      try {
        await change("DELETE", path(["jobs", job.ID], { reason: answer.reason }));
        stopped += 1;
      } catch (error) {
        notify(`${job.Name} was not stopped: ${inOneLine(error)}`, "failed");
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, jobs.length) }, work));
  if (stopped) notify(one ? `${jobs[0].Name} is stopped` : `${stopped} jobs are stopped`);
  return true;
}

/** @param {Graph} graph @returns {Promise<boolean>} whether it is stopped */
export async function stopGraph({ ID, Name, Jobs }) {
  const left = Jobs.filter(({ State }) => !isEnded(State)).length;
  const answer = await ask({
    title: `Stop ${Name}?`,
    body: [
      h(
        "p",
        null,
        `${plural(left, "job")} of the graph did not end yet. A stopped job does not start again.`,
      ),
    ],
    confirm: "Stop the graph",
    danger: true,
    copies: {
      curl: () => curl("DELETE", path(["graphs", ID])),
      jobctl: () => jobctl(["graph", "stop", ID]),
    },
  });
  if (!answer) return false;
  try {
    const { Stopped } = await change("DELETE", path(["graphs", ID]));
    notify(`${plural(Stopped, "job")} of ${Name} stopped`);
    return true;
  } catch (error) {
    notify(`${Name} was not stopped: ${inOneLine(error)}`, "failed");
    return false;
  }
}
