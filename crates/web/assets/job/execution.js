// What is known of one execution: its output, its message, what it uses, what it was given and what it follows.

import { get, path, send } from "../api.js";
import { runTime, timeAgo } from "../elements/clock.js";
import { idText } from "../elements/copy.js";
import { fill, h, say } from "../dom.js";
import { bytes, cores } from "../format.js";
import { nodeCell } from "../names.js";
import { session } from "../session.js";
import { isEndedExecution } from "../state.js";
import { startOf } from "./phases.js";
import { usageSection } from "./usage.js";
import { usedText } from "./used.js";

/** @import { Execution } from "../../types.d.ts" */

const DESIRED = ["Pending", "Running", "Stopped"];
// What a task prints now; the logs have all of it.
const LINES = 20;
// A history of one execution is short.
const EVENTS = 100;
const RUNNING = 5;
// What runs is measured every few seconds.
const AGAIN_MS = 5000;

/** @param {Execution} row @param {AbortSignal} signal */
export function executionDetails(row, signal) {
  const out = row.RunOutput ?? {};
  const seesOutput = session.may("submit", row.Namespace);
  const runs = row.ComputeState.StateType === RUNNING;
  const ran = h("span", { class: "muted" }, "…");
  const used = h("span", null, usedText(row));
  const lines = h("div");
  void showTimes(ran, row, signal);
  if (runs) {
    const again = () => {
      void showUsed(used, row, signal);
      if (seesOutput) void showLines(lines, row, signal);
    };
    if (seesOutput) void showLines(lines, row, signal);
    const timer = setInterval(() => {
      if (!used.isConnected) clearInterval(timer);
      else if (!document.hidden) again();
    }, AGAIN_MS);
    signal.addEventListener("abort", () => clearInterval(timer));
  }
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
      pair("Execution", idText(row.ID)),
      pair("Node", row.NodeID ? nodeCell(row.NodeID) : null),
      pair("Reserved", reserved(row)),
      pair("Used", row.Usage ? used : null),
      pair("Created", timeAgo(row.CreateTime)),
      pair(runs ? "Runs for" : "Ran", ran),
      pair(
        "Retry of",
        row.PreviousExecution ? idText(row.PreviousExecution, `/executions/${row.PreviousExecution}`) : null,
      ),
      pair(
        "Retried as",
        row.NextExecution ? idText(row.NextExecution, `/executions/${row.NextExecution}`) : null,
      ),
    ),
    usageSection("executions", row.ID, signal),
    runs && seesOutput ? lines : parts.length ? parts : h(
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

/** How long its process runs or ran, which the history tells. @param {HTMLElement} box @param {Execution} row @param {AbortSignal} signal */
async function showTimes(box, row, signal) {
  const url = path(["jobs", row.JobID, "history"], { execution_id: row.ID, limit: EVENTS });
  const page = await get(url, signal).catch(() => null);
  if (!page) return;
  const start = startOf(page.History);
  const ended = isEndedExecution(row.ComputeState.StateType);
  if (!start) return fill(box, ended ? "never" : "not yet");
  box.classList.remove("muted");
  fill(box, runTime(start * 1e6, ended ? row.ModifyTime : 0));
}

/** @param {HTMLElement} box @param {Execution} row @param {AbortSignal} signal */
async function showUsed(box, row, signal) {
  const found = await get(path(["executions", row.ID]), signal).catch(() => null);
  if (found && found.Execution.ComputeState.StateType === RUNNING) say(box, usedText(found.Execution));
}

/** @param {HTMLElement} box @param {Execution} row @param {AbortSignal} signal */
async function showLines(box, row, signal) {
  const url = path(["jobs", row.JobID, "logs"], { execution_id: row.ID, tail: LINES });
  try {
    const response = await send(url, { signal, headers: { Accept: "application/x-ndjson" } });
    const lines = (await response.text()).split("\n").filter(Boolean).map((line) => JSON.parse(line).Line);
    const text = lines.slice(-LINES).join("\n");
    // What someone reads or selects stays while nothing is printed.
    if (box.dataset.text === text) return;
    box.dataset.text = text;
    fill(box, stream("Last lines", text, false) ?? h("p", { class: "muted" }, "It has printed nothing yet."));
  } catch (error) {
    if (signal.aborted) return;
    const why = /** @type {Error} */ (error).message;
    fill(box, h("p", { class: "muted" }, `Its last lines cannot be read: ${why}`));
  }
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
