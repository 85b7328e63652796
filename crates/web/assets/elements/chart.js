// The load chart: CPU in use against capacity and the jobs that wait, over time, with a table for those who cannot see it.

import { h, svg } from "../dom.js";
import { coarse, millis } from "../time.js";

/** @import { LoadSample } from "../../types.d.ts" */

const WIDTH = 480;
const HEIGHT = 120;
// Less than this would draw moments as if they were a trend.
const LEAST_MS = 60_000;
// The table repeats at most this many samples.
const TABLE_ROWS = 12;

/** Whether a line can be drawn of them. @param {LoadSample[]} samples */
export function isEnough(samples) {
  return samples.length > 1;
}

/**
 * The milliseconds that the chart spans: those of which there are samples, so that a service that has
 * just started has a chart and no empty box.
 * @param {LoadSample[]} samples @param {number} seconds at most
 */
export function spanOf(samples, seconds) {
  const known = millis(samples[samples.length - 1].Time) - millis(samples[0].Time);
  return Math.min(seconds * 1000, Math.max(LEAST_MS, known));
}

/** @param {LoadSample[]} samples @param {number} seconds how much time the chart spans at most */
export function loadChart(samples, seconds) {
  if (!isEnough(samples)) {
    return h("p", { class: "quiet-note" }, "The chart begins twenty seconds after the orchestrator's start.");
  }
  const end = millis(samples[samples.length - 1].Time);
  const span = spanOf(samples, seconds);
  const start = end - span;
  const most = Math.max(1e-9, ...samples.map((s) => Math.max(s.Capacity.CPU, s.Allocated.CPU)));
  const queued = Math.max(1, ...samples.map((s) => s.Queued));
  /** @param {LoadSample} sample */
  const x = (sample) => Math.max(0, (millis(sample.Time) - start) / (end - start)) * WIDTH;
  /** @param {number} value @param {number} of */
  const y = (value, of) => HEIGHT - 2 - value / of * (HEIGHT - 12);
  /** @param {(sample: LoadSample) => number} value */
  const line = (value) =>
    samples.map((s, i) => `${i ? "L" : "M"}${x(s).toFixed(1)} ${value(s).toFixed(1)}`).join("");
  const used = line((s) => y(s.Allocated.CPU, most));
  const area = `${used}L${WIDTH} ${HEIGHT}L${x(samples[0]).toFixed(1)} ${HEIGHT}Z`;
  const last = samples[samples.length - 1];
  const peak = Math.max(...samples.map((s) => s.Allocated.CPU));
  const text = `CPU in use over the last ${coarse(span)}: now ${round(last.Allocated.CPU)} of ${
    round(last.Capacity.CPU)
  } cores, at most ${round(peak)}; ${round(last.Queued)} jobs wait`;
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "chart",
      role: "img",
      "aria-label": text,
      preserveAspectRatio: "none",
    },
    svg("path", { d: `M0 ${HEIGHT - 1}H${WIDTH}`, class: "axis" }),
    svg("path", { d: area, class: "area" }),
    svg("path", { d: line((s) => y(s.Capacity.CPU, most)), class: "capacity-line" }),
    svg("path", { d: used, class: "used-line" }),
    svg("path", { d: line((s) => y(s.Queued, Math.max(queued, 4))), class: "queued-line" }),
  );
  return h(
    "figure",
    null,
    picture,
    h(
      "div",
      { class: "axis-words small muted" },
      h("span", null, `${coarse(span)} ago`),
      h("span", null, "now"),
    ),
    h(
      "figcaption",
      { class: "legend small" },
      key("used", `CPU in use ${round(last.Allocated.CPU)}`),
      key("most", `capacity ${round(last.Capacity.CPU)} cores`),
      key("queued", `jobs waiting ${round(last.Queued)}`),
    ),
    h("details", { class: "small" }, h("summary", null, "As a table"), table(samples)),
  );
}

/** @param {string} name @param {string} text */
function key(name, text) {
  return h("span", { class: `key ${name}` }, text);
}

/** @param {LoadSample[]} samples */
function table(samples) {
  const every = Math.ceil(samples.length / TABLE_ROWS);
  const rows = samples.filter((_, index) => (samples.length - 1 - index) % every === 0).reverse();
  return h(
    "table",
    null,
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        ["Time", "CPU in use", "CPU", "Waiting", "Running"].map((word, i) =>
          h("th", { class: i ? "number" : "", scope: "col" }, word)
        ),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((s) =>
        h(
          "tr",
          null,
          h("td", null, new Date(millis(s.Time)).toLocaleTimeString()),
          [s.Allocated.CPU, s.Capacity.CPU, s.Queued, s.Running].map((n) =>
            h("td", { class: "number" }, round(n))
          ),
        )
      ),
    ),
  );
}

/** @param {number} value */
function round(value) {
  return String(Math.round(value * 10) / 10);
}
