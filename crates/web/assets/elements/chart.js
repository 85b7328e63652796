// A chart over time: one quantity with its axis and unit, the values under the pointer, and a table for readers who cannot see it.

import { fill, h, svg } from "../dom.js";
import { coarse } from "../time.js";

/**
 * @typedef {"used" | "most" | "other" | "queued"} Tone
 * @typedef {{ name: string, tone: Tone, values: (number | null)[] }} Line a value that is not known is null
 * @typedef {{
 *   title: string, times: number[], lines: Line[], text: (value: number) => string, least: number,
 *   span?: number, binary?: boolean,
 * }} Chart `times` are in milliseconds, `least` is the least end of the axis, `span` the time that is drawn
 */

const WIDTH = 480;
const HEIGHT = 120;
// The table repeats at most this many samples.
const TABLE_ROWS = 12;
// A step of this many usual ones is a gap, in which no line is drawn.
const GAP = 4;

/** Ends of axes whose halves have no more digits than they have. */
const ENDS = [1, 2, 4, 6, 8, 10];

/** A round end of an axis that has room for a value. @param {number} most */
export function axisEnd(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return (ENDS.find((step) => step * power >= most * 0.999) ?? 10) * power;
}

/** @param {number[]} times @returns {number} */
function usualStep(times) {
  const steps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b);
  return steps[Math.floor(steps.length / 2)] ?? 0;
}

/**
 * The path of a line, which is broken where nothing was measured.
 * @param {number[]} times @param {(number | null)[]} values
 * @param {(time: number) => number} x @param {(value: number) => number} y
 */
export function linePath(times, values, x, y) {
  const gap = usualStep(times) * GAP;
  let path = "";
  let last = -Infinity;
  values.forEach((value, at) => {
    if (value === null) {
      last = -Infinity;
      return;
    }
    const moves = times[at] - last > gap;
    path += `${moves ? "M" : "L"}${x(times[at]).toFixed(1)} ${y(value).toFixed(1)}`;
    last = times[at];
  });
  return path;
}

/** @param {Chart} chart */
export function timeChart(chart) {
  const { times, lines, text } = chart;
  const end = times[times.length - 1];
  const span = Math.max(1, chart.span ?? end - times[0]);
  const known = lines.flatMap(({ values }) => values.filter((value) => value !== null));
  const top = axisEnd(Math.max(chart.least, ...known));
  const x = (/** @type {number} */ time) => (1 - (end - time) / span) * WIDTH;
  const y = (/** @type {number} */ value) => HEIGHT - 1 - value / top * (HEIGHT - 2);
  const now = (/** @type {number} */ at) =>
    lines.map(({ name, values }) => `${name} ${say(values[at], text)}`).join(", ");
  const picture = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      class: "chart",
      role: "img",
      "aria-label": `${chart.title} over the last ${coarse(span)}: ${now(times.length - 1)}`,
      preserveAspectRatio: "none",
    },
    ...[0, 0.5, 1].map((part) => svg("path", { d: `M0 ${y(top * part)}H${WIDTH}`, class: "axis" })),
  );
  for (const { tone, values } of lines) {
    const path = linePath(times, values, x, y);
    // A single run is filled; runs with gaps would be closed across them.
    if (tone === "used" && path && !path.includes("M", 1)) {
      const [first] = /-?[\d.]+/.exec(path) ?? [0];
      const last = values.findLastIndex((value) => value !== null);
      picture.append(
        svg("path", {
          d: `${path}L${x(times[last]).toFixed(1)} ${HEIGHT}L${first} ${HEIGHT}Z`,
          class: "area",
        }),
      );
    }
    picture.append(svg("path", { d: path, class: `${tone}-line` }));
  }
  const cross = h("i", { class: "crosshair", hidden: true });
  const reading = h("p", { class: "reading small", "aria-hidden": "true" });
  const plot = h("div", { class: "chart-plot" }, picture, cross);
  const legend = () =>
    fill(
      reading,
      h("span", { class: "muted" }, "now "),
      lines.map(({ name, tone, values }) => key(tone, `${name} ${say(values[times.length - 1], text)}`)),
    );
  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const time = end - (1 - (event.clientX - box.left) / box.width) * span;
    const at = nearest(times, time);
    const left = x(times[at]) / WIDTH * 100;
    cross.hidden = left < 0;
    cross.style.left = `${left}%`;
    fill(
      reading,
      h("span", { class: "muted" }, `${moment(times[at], span)} `),
      lines.map(({ name, tone, values }) => key(tone, `${name} ${say(values[at], text)}`)),
    );
  });
  plot.addEventListener("pointerleave", () => {
    cross.hidden = true;
    legend();
  });
  legend();
  return h(
    "figure",
    { class: "time-chart" },
    h("figcaption", null, h("span", { class: "small muted" }, chart.title), reading),
    h("div", { class: "axis-y small muted" }, [1, 0.5, 0].map((part) => h("span", null, text(top * part)))),
    plot,
    h(
      "div",
      { class: "axis-words small muted" },
      [1, 0.5, 0].map((part) => h("span", null, moment(end - span * part, span))),
    ),
    h("details", { class: "small" }, h("summary", null, "As a table"), table(chart)),
  );
}

/** @param {number[]} times @param {number} wanted */
function nearest(times, wanted) {
  let best = 0;
  times.forEach((time, at) => {
    if (Math.abs(time - wanted) < Math.abs(times[best] - wanted)) best = at;
  });
  return best;
}

/** A time of day, as exact as the chart is. @param {number} at @param {number} span */
function moment(at, span) {
  /** @type {Intl.DateTimeFormatOptions} */
  const options = span > 36 * 3_600_000
    ? { weekday: "short", hour: "2-digit", minute: "2-digit" }
    : { hour: "2-digit", minute: "2-digit", ...(span < 600_000 ? { second: "2-digit" } : {}) };
  return new Date(at).toLocaleTimeString(undefined, { ...options, hourCycle: "h23" });
}

/** @param {number | null | undefined} value @param {(value: number) => string} text */
function say(value, text) {
  return value === null || value === undefined ? "–" : text(value);
}

/** @param {Tone} tone @param {string} text */
function key(tone, text) {
  return h("span", { class: `key ${tone}` }, text);
}

/** @param {Chart} chart */
function table({ title, times, lines, text, span = Infinity }) {
  const every = Math.ceil(times.length / TABLE_ROWS);
  const rows = times.map((_, at) => at).filter((at) => (times.length - 1 - at) % every === 0).reverse();
  return h(
    "table",
    { "aria-label": title },
    h(
      "thead",
      null,
      h(
        "tr",
        null,
        h("th", { scope: "col" }, "Time"),
        lines.map(({ name }) => h("th", { class: "number", scope: "col" }, name)),
      ),
    ),
    h(
      "tbody",
      null,
      rows.map((at) =>
        h(
          "tr",
          null,
          h("td", null, moment(times[at], Math.min(span, times[times.length - 1] - times[0]))),
          lines.map(({ values }) => h("td", { class: "number" }, say(values[at], text))),
        )
      ),
    ),
  );
}

/** A line without axes for a row of a table; the text says what it ends with. @param {number[]} values @param {string} label */
export function sparkline(values, label) {
  const most = Math.max(1e-9, ...values);
  const step = 80 / Math.max(1, values.length - 1);
  const d = values.map((v, at) =>
    `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(17 - v / most * 16).toFixed(1)}`
  );
  return svg(
    "svg",
    { viewBox: "0 0 80 18", width: 80, height: 18, class: "chart spark", role: "img", "aria-label": label },
    svg("path", { d: d.join(""), class: "used-line" }),
  );
}
