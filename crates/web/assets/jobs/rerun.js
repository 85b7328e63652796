// Runs a job that has ended again, after a question that shows which of its indexes would run.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { fill, h } from "../dom.js";
import { plural } from "../format.js";
import { rerunArguments } from "../lines.js";
import { inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { go } from "../router.js";
import { newKey } from "../submit/draft.js";

/** @import { Job } from "../../types.d.ts" */

/** Characters of a list of indexes: some lines of the narrowest window. */
const MOST_INDEXES = 200;

/** Names of jobs that run after it: some lines as well. */
const MOST_NAMES = 10;

/** @type {[string, string][]} */
const CHOICES = [
  ["Failed", "Indexes that failed"],
  ["NotCompleted", "Indexes that failed, were cancelled, or never ran"],
  ["All", "All indexes"],
];

/** @param {Job} job */
export async function rerunJob(job) {
  const hasFailed = (job.State.FailedCount ?? 0) > 0;
  const first = hasFailed ? "Failed" : job.State.StateType === "Completed" ? "All" : "NotCompleted";
  const preview = h("p", { class: "wrap", role: "status" });
  const choice = h(
    "select",
    { name: "only", onchange: () => void show() },
    CHOICES.map(([value, word]) => h("option", { value, selected: value === first }, word)),
  );
  const downstream = h("input", { type: "checkbox", name: "downstream", onchange: () => void show() });
  const body = () => downstream.checked ? { Only: choice.value, Downstream: true } : { Only: choice.value };
  const show = async () => {
    const asked = body();
    fill(preview, "…");
    let said;
    try {
      said = sentence(await change("POST", path(["jobs", job.ID, "rerun"], { dry_run: true }), asked));
    } catch (error) {
      said = [inOneLine(error)];
    }
    if (asked.Only === choice.value && !asked.Downstream === !downstream.checked) fill(preview, ...said);
  };
  void show();
  const answer = await ask({
    title: `Run ${job.Name} again?`,
    body: [
      h("label", { class: "field" }, h("span", null, "What runs"), choice),
      h("label", null, downstream, " Also everything that did not run because of it"),
      preview,
      h("p", { class: "muted" }, "A new job runs them under the same indexes."),
    ],
    confirm: "Run again",
    copies: {
      curl: () => curl("POST", path(["jobs", job.ID, "rerun"]), { body: body() }),
      jobctl: () => jobctl(rerunArguments(job.ID, choice.value, downstream.checked)),
    },
  });
  if (!answer) return;
  try {
    const made = await change("POST", path(["jobs", job.ID, "rerun"]), body(), {
      headers: { "Idempotency-Key": newKey() },
    });
    go(made.GraphID ? `/graphs/${made.GraphID}` : `/jobs/${made.JobID}`);
  } catch (error) {
    notify(`${job.Name} does not run again: ${inOneLine(error)}`, "failed");
  }
}

/**
 * @param {{ Indexes: string, Nodes: { Chosen: boolean }[], Job: Job, Downstream?: { Name: string }[],
 *   Warnings?: string[] }} dry
 */
function sentence(
  { Indexes: indexes, Nodes: nodes, Job: { Type, Count }, Downstream: after = [], Warnings: left = [] },
) {
  const counted = Type === "ops" ? nodes.length : Count ?? 1;
  const end = indexes.length > MOST_INDEXES ? indexes.lastIndexOf(",", MOST_INDEXES) : indexes.length;
  const listed = indexes.slice(0, end);
  const list = listed.length < indexes.length ? `${listed},…` : indexes;
  const names = after.slice(0, MOST_NAMES).map(({ Name }) => Name).join(", ");
  const more = after.length > MOST_NAMES ? ", …" : "";
  return [
    `${plural(counted, "execution")}: `,
    h("code", null, list),
    after.length ? `; then ${plural(after.length, "job")}: ${names}${more}` : "",
    left.length ? `; ${left.join("; ")}` : "",
  ];
}
