// What is known of one execution: its output, its message, what it was given and what it follows.

import { runTime, timeAgo } from "../elements/clock.js";
import { idText } from "../elements/copy.js";
import { h } from "../dom.js";
import { bytes, cores } from "../format.js";
import { session } from "../session.js";

/** @import { Execution } from "../../types.d.ts" */

const DESIRED = ["Pending", "Running", "Stopped"];

/** @param {Execution} row */
export function executionDetails(row) {
  const out = row.RunOutput ?? {};
  const seesOutput = session.may("submit", row.Namespace);
  const parts = [
    stream("Standard output", out.stdout, out.stdouttruncated),
    stream("Standard error", out.stderr, out.stderrtruncated),
  ].filter(Boolean);
  return h(
    "div",
    { class: "details" },
    h(
      "dl",
      { class: "pairs" },
      pair("Message", row.ComputeState.Message),
      pair("Reported by the runner", out.runnerError),
      pair(
        "Desired state",
        `${DESIRED[row.DesiredState.StateType] ?? row.DesiredState.StateType}${
          row.DesiredState.Message ? `: ${row.DesiredState.Message}` : ""
        }`,
      ),
      pair("Node", row.NodeID ? idText(row.NodeID, `/nodes/${row.NodeID}`) : null),
      pair("Reserved", reserved(row)),
      pair("Used", used(row.Usage)),
      pair("Created", timeAgo(row.CreateTime)),
      pair("Lasted", runTime(row.CreateTime, row.ModifyTime)),
      pair(
        "Retry of",
        row.PreviousExecution ? idText(row.PreviousExecution, `/executions/${row.PreviousExecution}`) : null,
      ),
      pair(
        "Retried as",
        row.NextExecution ? idText(row.NextExecution, `/executions/${row.NextExecution}`) : null,
      ),
    ),
    parts.length ? parts : h(
      "p",
      { class: "muted" },
      seesOutput
        ? "It has printed nothing that the record keeps."
        : `What it has printed needs the role submitter in namespace ${row.Namespace}.`,
    ),
    h(
      "p",
      { class: "toolbar" },
      seesOutput
        ? h("a", { class: "button", href: `/jobs/${row.JobID}/logs?execution=${row.ID}` }, "Logs")
        : null,
      h("a", { class: "button", href: `/jobs/${row.JobID}/history?execution=${row.ID}` }, "History"),
      seesOutput && row.PublishedResult?.Type
        ? h("a", { class: "button", href: `/jobs/${row.JobID}/results` }, "Results")
        : null,
    ),
  );
}

/** @param {string} name @param {import("../dom.js").Child} value */
function pair(name, value) {
  return value ? [h("dt", null, name), h("dd", null, value)] : [];
}

/** @param {Execution} row */
function reserved(row) {
  return Object.values(row.AllocatedResources?.Tasks ?? {}).map((given) =>
    [
      `${cores(given.CPU)} CPU`,
      `${bytes(given.Memory)} memory`,
      given.Disk ? `${bytes(given.Disk)} disk` : "",
      given.GPU ? `${given.GPU} GPU` : "",
    ]
      .filter(Boolean).join(", ")
  ).join("; ");
}

/** @param {any} usage */
function used(usage) {
  if (!usage || typeof usage !== "object") return null;
  return Object.entries(usage).map(([name, value]) =>
    `${name} ${typeof value === "number" && /Memory|Bytes|Disk/.test(name) ? bytes(value) : value}`
  ).join(", ");
}

/** @param {string} name @param {string | undefined} text @param {boolean | undefined} truncated */
function stream(name, text, truncated) {
  if (!text) return null;
  return h(
    "section",
    null,
    h("h3", null, name, truncated ? " (the record keeps only a part; the logs may have all of it)" : ""),
    h("pre", { class: "code", tabindex: 0, "aria-label": name }, text),
  );
}
