// What an execution, a job or a node used over time: cores and memory in two charts, with what they may use.

import { get, path } from "../api.js";
import { timeChart } from "../elements/chart.js";
import { fill, h } from "../dom.js";
import { bytes, count, plural } from "../format.js";
import { millis } from "../time.js";
import { coresText, ofText } from "./used.js";

/** @import { NodeCurve, Resources, UsageAnswer, UsageCurve } from "../../types.d.ts" */
/** @import { Line } from "../elements/chart.js" */

// What runs is asked for again after this time; nodes keep a point for no less.
const AGAIN_MS = 10_000;
// The first point of a run comes after a second.
const SOON_MS = 3000;
// Charts of less would draw a moment as if it were a trend.
const LEAST_CORES = 0.02;
const LEAST_BYTES = 4e6;

/**
 * @param {"jobs" | "executions"} kind @param {string} id @param {AbortSignal} signal
 * @param {(answer: UsageAnswer) => void} [each] takes what was read
 */
export function usageSection(kind, id, signal, each) {
  const box = h("div", { class: "usage-charts", hidden: true });
  const url = path([kind, id, "usage"], { executions: kind === "jobs" });
  void repeat(box, signal, async () => {
    /** @type {UsageAnswer} */
    const answer = await get(url, signal);
    each?.(answer);
    const { Curve: curve, Allocated: given } = answer;
    const runs = answer.Running ?? answer.Nodes > 0;
    if (curve?.CPU.length) draw(box, curve, given, runs, noteOf(answer));
    return !runs ? 0 : curve ? AGAIN_MS : SOON_MS;
  });
  return box;
}

/** The same of a node, for the last hour or day. @param {string} id @param {AbortSignal} signal */
export function nodeUsage(id, signal) {
  const box = h("div", { class: "section" });
  const plot = h("div", { class: "usage-charts" });
  let span = "Hour";
  /** @type {any} */
  let answer = null;
  const show = () => answer && fill(plot, nodeCharts(answer, span));
  const words = { Hour: "1 hour", Day: "24 hours" };
  const buttons = Object.entries(words).map(([name, word]) =>
    h("button", {
      type: "button",
      class: "quiet",
      "aria-pressed": String(name === span),
      onclick: () => {
        span = name;
        for (const button of buttons) {
          button.setAttribute("aria-pressed", String(button.textContent === word));
        }
        show();
      },
    }, word)
  );
  fill(box, h("header", null, h("h2", null, "Usage"), h("div", { class: "choices end" }, buttons)), plot);
  void repeat(box, signal, async () => {
    answer = await get(path(["nodes", id, "usage"]), signal);
    show();
    return AGAIN_MS;
  });
  return box;
}

/** @param {{ Capacity: Resources, Hour: NodeCurve | null, Day: NodeCurve | null }} answer @param {string} span */
function nodeCharts({ Capacity, Hour, Day }, span) {
  const curve = span === "Hour" ? Hour : Day;
  if (!curve) return h("p", { class: "quiet-note" }, "The node keeps its curves, and does not answer now.");
  if (!curve.Used.CPU.length) return h("p", { class: "quiet-note" }, "Nothing was measured in this time.");
  return charts(curve.Used, Capacity, "capacity", {
    cpu: { name: "allocated", tone: "other", values: drawn(curve.AllocatedCPU) },
    memory: { name: "allocated", tone: "other", values: drawn(curve.AllocatedMemory) },
  });
}

/** Does it until it says 0, while the box is part of the page. @param {HTMLElement} box @param {AbortSignal} signal @param {() => Promise<number>} work milliseconds until the next time */
async function repeat(box, signal, work) {
  for (let wait = SOON_MS; wait;) {
    // A curve is an addition: without it the numbers stand.
    if (!document.hidden) wait = await work().catch(() => AGAIN_MS);
    if (!wait) return;
    await new Promise((resolve) => setTimeout(resolve, wait));
    if (signal.aborted || !box.isConnected) return;
  }
}

/** What is missing in a curve. @param {UsageAnswer} answer */
function noteOf({ Nodes = 0, Answered, More = false, Measured = 0 }) {
  const silent = typeof Answered === "number" ? Nodes - Answered : 0;
  return [
    More ? `Of ${count(Measured)} executions; there are more.` : "",
    silent > 0 ? `${plural(silent, "node")} of ${count(Nodes)} did not answer.` : "",
    Answered === false ? "Its node does not answer; the curve is missing until it does." : "",
  ].filter(Boolean).join(" ");
}

/** @param {HTMLElement} box @param {UsageCurve} curve @param {Resources} given @param {boolean} runs @param {string} note */
function draw(box, curve, given, runs, note) {
  box.hidden = false;
  const last = curve.CPU.length - 1;
  fill(
    box,
    runs ? h("p", { class: "usage-line" }, usageText(curve.CPU[last], curve.Memory[last], given)) : null,
    charts(curve, given, "given", {}),
    note ? h("p", { class: "quiet-note" }, note) : null,
  );
}

/** The first value twice, since a line begins where its first point does. @param {number[]} values */
function drawn(values) {
  return [values[0] ?? 0, ...values];
}

/** The moments of what `drawn` gives. @param {UsageCurve} curve */
export function timesOf({ BeginTime, EndTime, Step, CPU }) {
  const begin = millis(BeginTime);
  const end = millis(EndTime);
  return [begin, ...CPU.map((_, at) => Math.min(end, begin + (at + 1) * Step * 1000))];
}

/** @param {UsageCurve} curve @param {Resources} most @param {string} word what the limit is called @param {{ cpu?: Line, memory?: Line }} more */
function charts(curve, most, word, more) {
  const times = timesOf(curve);
  const chart = (
    /** @type {string} */ title,
    /** @type {number[]} */ used,
    /** @type {number} */ limit,
    /** @type {Line | undefined} */ other,
    /** @type {(value: number) => string} */ text,
    /** @type {number} */ least,
  ) =>
    timeChart({
      title,
      times,
      lines: [
        { name: "used", tone: "used", values: drawn(used) },
        ...(other ? [other] : []),
        ...(limit
          ? [{ name: word, tone: /** @type {const} */ ("most"), values: times.map(() => limit) }]
          : []),
      ],
      text,
      least,
    });
  return h(
    "div",
    { class: "columns" },
    chart("CPU", curve.CPU, most.CPU, more.cpu, coresText, LEAST_CORES),
    chart("Memory", curve.Memory, most.Memory, more.memory, bytes, LEAST_BYTES),
  );
}

/** `CPU 0.5 of 1 core · memory 12 of 128 MB`. @param {number} cpu @param {number} memory @param {Resources} given */
export function usageText(cpu, memory, given) {
  const cores = given.CPU ? ofText(coresText(cpu), coresText(given.CPU)) : coresText(cpu);
  return `CPU ${cores} · memory ${given.Memory ? ofText(bytes(memory), bytes(given.Memory)) : bytes(memory)}`;
}
