// The load of the cluster in two charts: cores in use and given, and the jobs that wait.

import { h } from "../dom.js";
import { timeChart } from "./chart.js";
import { millis } from "../time.js";

/** @import { LoadSample } from "../../types.d.ts" */

// Less than this would draw moments as if they were a trend.
const LEAST_MS = 60_000;

/** Whether a line can be drawn of them. @param {LoadSample[]} samples */
export function isEnough(samples) {
  return samples.length > 1;
}

/**
 * The milliseconds that a chart spans: those of which there are samples, so that a service that has
 * just started has a chart and no empty box.
 * @param {LoadSample[]} samples @param {number} seconds at most
 */
export function spanOf(samples, seconds) {
  const known = millis(samples[samples.length - 1].Time) - millis(samples[0].Time);
  return Math.min(seconds * 1000, Math.max(LEAST_MS, known));
}

/** @param {number} value */
const decimal = (value) => String(Math.round(value * 10) / 10);

/** @param {LoadSample[]} samples @param {number} seconds how much time the charts span at most */
export function loadCharts(samples, seconds) {
  if (!isEnough(samples)) {
    return [
      h("p", { class: "quiet-note" }, "The charts begin twenty seconds after the orchestrator's start."),
    ];
  }
  const times = samples.map((sample) => millis(sample.Time));
  const span = spanOf(samples, seconds);
  return [
    timeChart({
      title: "CPU",
      times,
      span,
      lines: [
        { name: "allocated", tone: "used", values: samples.map((s) => s.Allocated.CPU) },
        { name: "capacity", tone: "most", values: samples.map((s) => s.Capacity.CPU) },
      ],
      text: (value) => `${decimal(value)} ${value === 1 ? "core" : "cores"}`,
      least: 0.2,
    }),
    timeChart({
      title: "Waiting jobs",
      times,
      span,
      lines: [{ name: "waiting", tone: "queued", values: samples.map((s) => s.Queued) }],
      text: decimal,
      least: 4,
    }),
  ];
}
