// The timeline of a job: a bar for each slot with its phases and retries, to zoom, and the same as a table.

import { all, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { fill, h, svg } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { count, visible } from "../format.js";
import { keepFresh } from "../fresh.js";
import { historyArguments } from "../lines.js";
import { nodeLink, nodeText, whenNamed } from "../names.js";
import { empty, failure, loading } from "../notes.js";
import { badge, executionLook } from "../state.js";
import { duration } from "../time.js";
import { slots, ticks } from "./phases.js";

/** @import { Execution } from "../../types.d.ts" */
/** @import { Attempt, Slot } from "./phases.js" */
/** @import { TabContext } from "../pages/job.js" */

const MOST_EXECUTIONS = 1000;
const MOST_EVENTS = 8000;
// More rows than this are a wall of bars that says nothing; the table of executions has filters.
const MOST_SLOTS = 200;
const ROW_PX = 28;
const AXIS_PX = 24;
const TICK_PX = 96;
// A bar is never thinner, so that a run of a millisecond is still there.
const LEAST_PX = 3;
const LARGEST_ZOOM = 64;
const RUNNING = 5;

/** @param {TabContext} context */
export default function timeline({ job, signal }) {
  const box = h("div", null, loading());
  const picture = h("div", { class: "timeline" });
  const note = h("p", { class: "quiet-note" });
  const keys = h("span", { class: "legend small end" });
  let zoom = 1;
  let asTable = false;
  /** @type {Slot[]} */
  let rows = [];
  let isCapped = false;

  const draw = () => {
    const shown = rows.slice(0, MOST_SLOTS);
    fill(picture, asTable ? table(shown) : bars(shown, zoom, picture.clientWidth || 800));
    fill(keys, asTable ? null : legend(shown));
    const parts = [];
    if (rows.length > shown.length) parts.push(`The first ${MOST_SLOTS} of ${count(rows.length)} indexes.`);
    if (isCapped) parts.push(`Drawn from the first ${count(MOST_EXECUTIONS)} executions.`);
    note.textContent = parts.join(" ");
  };
  const zoomBy = (/** @type {number} */ by) => {
    zoom = Math.min(LARGEST_ZOOM, Math.max(1, zoom * by));
    draw();
  };
  const view = h("button", {
    type: "button",
    "aria-pressed": "false",
    onclick: () => {
      asTable = !asTable;
      view.setAttribute("aria-pressed", String(asTable));
      draw();
    },
  }, "As a table");
  const toolbar = h(
    "div",
    { class: "toolbar" },
    h("button", { type: "button", onclick: () => zoomBy(2) }, "Zoom in"),
    h("button", { type: "button", onclick: () => zoomBy(0.5) }, "Zoom out"),
    view,
    copyLines(
      "the history of its executions",
      () => curl("GET", path(["jobs", job.ID, "history"], { event_type: "execution" })),
      () => jobctl(historyArguments(job.ID, { kind: "execution", execution: "" })),
    ),
    keys,
  );
  const refresh = keepFresh({
    signal,
    cares: (change) => change.jobs.has(job.ID),
    load: (signal) => read(job.ID, signal),
    show: ({ executions, events }) => {
      if (!executions.rows.length) {
        return fill(
          box,
          empty("No execution yet", h("p", null, "Its bars appear as soon as a node has room.")),
        );
      }
      rows = slots(executions.rows, events.rows);
      isCapped = executions.more;
      if (!picture.isConnected) fill(box, toolbar, picture, note);
      draw();
      const nodes = executions.rows.map((/** @type {Execution} */ row) => row.NodeID);
      whenNamed(nodes, () => signal.aborted || draw());
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  const resized = new ResizeObserver(() => rows.length && !asTable && requestAnimationFrame(draw));
  resized.observe(box);
  signal.addEventListener("abort", () => resized.disconnect());
  return box;
}

/** What is drawn, in the order in which it happens. @param {Slot[]} rows */
function legend(rows) {
  const attempts = rows.flatMap((row) => row.attempts);
  const kinds = new Set(attempts.flatMap(({ phases }) => phases.map(({ kind }) => kind)));
  const before = ["offered", "preparing", "fetching"].filter((kind) => kinds.has(/** @type {any} */ (kind)));
  /** @type {Map<string, string>} */
  const ends = new Map();
  for (const { state, phases } of attempts) {
    if (!phases.some(({ kind }) => kind === "running")) continue;
    const { word, tone } = executionLook(state);
    ends.set(state === RUNNING ? "running" : `ran, ${word.toLowerCase()}`, tone);
  }
  return [
    before.map((kind) => h("span", { class: `phase-key ${kind}` }, kind)),
    [...ends].map(([word, tone]) => h("span", { class: `phase-key running ${tone}` }, word)),
    rows.some((row) => row.attempts.length > 1)
      ? h("span", { class: "phase-key again" }, "tried again")
      : null,
  ].flat();
}

/** @param {string} id @param {AbortSignal} signal */
async function read(id, signal) {
  const [executions, events] = await Promise.all([
    all(
      (token, limit) =>
        path(["jobs", id, "executions"], { limit, next_token: token, order_by: "create_time" }),
      "Executions",
      MOST_EXECUTIONS,
      signal,
    ),
    all(
      (token, limit) => path(["jobs", id, "history"], { limit, next_token: token, event_type: "execution" }),
      "History",
      MOST_EVENTS,
      signal,
    ),
  ]);
  return { executions, events };
}

/** @param {Slot[]} rows @param {number} zoom @param {number} available */
function bars(rows, zoom, available) {
  const attempts = rows.flatMap((row) => row.attempts);
  const now = Date.now();
  const start = Math.min(...attempts.map((a) => a.from));
  const end = Math.max(...attempts.map((a) => a.to || now));
  const span = Math.max(1, end - start);
  const labels = 72;
  const width = Math.max(200, (available - labels - 8) * zoom);
  const height = AXIS_PX + rows.length * ROW_PX;
  const x = (/** @type {number} */ at) => (at - start) / span * (width - 60);
  const drawing = svg("svg", {
    width,
    height,
    class: "phases",
    role: "group",
    "aria-label": "Executions over time",
  });
  for (const tick of ticks(span, Math.max(2, (width - 60) / TICK_PX))) {
    const at = x(start + tick);
    const text = svg("text", { x: at + 4, y: 15, class: "tick" });
    text.textContent = tick === 0 ? "0" : `+${duration(tick).replace(".0 s", " s")}`;
    drawing.append(svg("path", { d: `M${at} 0V${height}`, class: "grid" }), text);
  }
  rows.forEach((row, index) => {
    const y = AXIS_PX + index * ROW_PX;
    row.attempts.forEach((attempt, nth) => {
      const before = row.attempts[nth - 1];
      if (before) {
        drawing.append(
          svg("path", { d: `M${x(before.to || now)} ${y + 14}H${x(attempt.from)}`, class: "retry" }),
        );
      }
      drawing.append(bar(row.slot, attempt, y, x, now));
    });
  });
  return h(
    "div",
    { class: "timeline-grid" },
    h(
      "div",
      { class: "slots", "aria-hidden": "true" },
      rows.map((row) => {
        const last = row.attempts[row.attempts.length - 1];
        return h(
          "span",
          { class: `state ${executionLook(last.state).tone}` },
          badge({ ...executionLook(last.state), word: `[${row.slot}]` }),
        );
      }),
    ),
    h(
      "div",
      { class: "phases-box", tabindex: 0, role: "region", "aria-label": "Timeline, scrolls sideways" },
      drawing,
    ),
  );
}

/** @param {number} slot @param {Attempt} attempt @param {number} y @param {(at: number) => number} x @param {number} now */
function bar(slot, attempt, y, x, now) {
  const look = executionLook(attempt.state);
  const link = svg("a", { href: `/executions/${attempt.id}`, class: "attempt" });
  const title = svg("title", {});
  title.textContent = [
    `[${slot}] on ${nodeText(attempt.node)}: ${look.word}`,
    attempt.message,
    ...attempt.phases.map((p) => `${p.kind} ${duration((p.to || now) - p.from)}`),
  ].filter(Boolean).map(visible).join("\n");
  link.append(title);
  for (const phase of attempt.phases) {
    const from = x(phase.from);
    const wide = Math.max(phase.kind === "running" ? LEAST_PX : 1, x(phase.to || now) - from);
    link.append(
      svg("rect", {
        x: from,
        y: y + 7,
        width: wide,
        height: 14,
        rx: 2,
        class: `phase ${phase.kind} ${phase.kind === "running" ? look.tone : ""}`,
      }),
    );
  }
  return link;
}

/** @param {Slot[]} rows */
function table(rows) {
  const took = (/** @type {Attempt} */ attempt, /** @type {string} */ kind) => {
    const phase = attempt.phases.find((p) => p.kind === kind);
    return phase ? `${duration((phase.to || Date.now()) - phase.from)}${phase.to ? "" : " so far"}` : "–";
  };
  return h(
    "table",
    { "aria-label": "Phases of executions" },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        ["Index", "Attempt", "Node", "State", "Offered", "Preparing", "Fetching", "Running"].map((word) =>
          h("th", { scope: "col" }, word)
        ),
      ),
    ),
    h(
      "tbody",
      null,
      rows.flatMap((row) =>
        row.attempts.map((attempt, nth) =>
          h(
            "tr",
            null,
            h("td", null, `[${row.slot}]`),
            h("td", null, h("a", { class: "main", href: `/executions/${attempt.id}` }, String(nth + 1))),
            h("td", null, attempt.node ? nodeLink(attempt.node) : "–"),
            h("td", null, badge(executionLook(attempt.state))),
            h("td", null, took(attempt, "offered")),
            h("td", null, took(attempt, "preparing")),
            h("td", null, took(attempt, "fetching")),
            h("td", null, took(attempt, "running")),
          )
        )
      ),
    ),
  );
}
