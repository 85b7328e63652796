// The picture of a graph: a box with the state of each job, and a line for each condition.

import { h, svg } from "../dom.js";
import { visible } from "../format.js";
import { go } from "../router.js";
import { jobLook } from "../state.js";
import { layout } from "./layout.js";

/** @import { Graph } from "../../types.d.ts" */
/** @import { Line, Place } from "./layout.js" */

const WIDTH = 168;
const HEIGHT = 28;
const BETWEEN_LAYERS = 48;
const BETWEEN_ROWS = 10;
const MARGIN = 8;
// Characters of a name that a box has room for.
const SHOWN = 20;

/** Screen readers get the table below it instead. @param {Graph} graph */
export function drawing(graph) {
  const { places, lines, layers, rows } = layout(graph);
  const width = layers * (WIDTH + BETWEEN_LAYERS) - BETWEEN_LAYERS + 2 * MARGIN;
  const height = rows * (HEIGHT + BETWEEN_ROWS) - BETWEEN_ROWS + 2 * MARGIN;
  const picture = svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" },
    ...lines.map(line),
    ...places.map(box),
  );
  return h(
    "div",
    { class: "graph", tabindex: "0", role: "group", "aria-label": "The graph, which scrolls" },
    picture,
  );
}

/** @param {Place} place */
function at({ layer, row }) {
  return [MARGIN + layer * (WIDTH + BETWEEN_LAYERS), MARGIN + row * (HEIGHT + BETWEEN_ROWS)];
}

/** @param {Line} line */
function line({ from, to, condition, indexes }) {
  const [fromX, fromY] = at(from);
  const [toX, toY] = at(to);
  const [x, y, endY] = [fromX + WIDTH, fromY + HEIGHT / 2, toY + HEIGHT / 2];
  const bend = BETWEEN_LAYERS / 2;
  return svg("path", {
    class: `when-${condition.toLowerCase()}${indexes === "Same" ? " index-by-index" : ""}`,
    d: `M${x} ${y}C${x + bend} ${y} ${toX - bend} ${endY} ${toX} ${endY}`,
  });
}

/** @param {Place} place */
function box(place) {
  const { Name, JobID, State } = place.job;
  const [x, y] = at(place);
  const look = jobLook(State);
  const name = visible(Name);
  const short = name.length > SHOWN ? `${name.slice(0, SHOWN - 1)}…` : name;
  const link = svg(
    "a",
    { href: `/jobs/${JobID}`, class: `tone-${look.tone}`, tabindex: -1 },
    svg("title", {}, document.createTextNode(`${name}: ${look.word}`)),
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 4 }),
    svg("circle", { cx: x + 13, cy: y + HEIGHT / 2, r: 4 }),
    svg("text", { x: x + 24, y: y + HEIGHT / 2 + 4 }, document.createTextNode(short)),
  );
  // The router follows links of HTML alone.
  link.addEventListener("click", (event) => {
    if (!(event instanceof MouseEvent) || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(`/jobs/${JobID}`);
  });
  return link;
}
