// What waits for room, for the person who decides whether the cluster needs more nodes.

import { get, path } from "./api.js";
import { curl, jobctl } from "./commands.js";
import { timeAgo } from "./elements/clock.js";
import { copyLines } from "./elements/copy.js";
import { fill, h, tableHead } from "./dom.js";
import { bytes, cores, count } from "./format.js";
import { keepFresh } from "./fresh.js";

/** @import { Constraint, Demand, DemandClass } from "../types.d.ts" */

const ROWS = 5;

/** Shows it while something waits. @param {HTMLElement} box @param {AbortSignal} signal */
export function showDemand(box, signal) {
  const url = path(["cluster", "demand"], { limit: ROWS });
  keepFresh({
    signal,
    cares: (change) => change.cluster || change.nodes.size > 0,
    load: (signal) => get(url, signal),
    show: (/** @type {Demand} */ demand) => demand.Classes.length ? fill(box, table(url, demand)) : fill(box),
    // The nodes are what the page is for.
    fail: () => fill(box),
  });
}

/** @param {string} url @param {Demand} demand */
function table(url, demand) {
  return h(
    "section",
    { class: "section" },
    h(
      "header",
      null,
      h("h2", null, "Waits for room"),
      copyLines("the demand", () => curl("GET", url), () => jobctl(["cluster", "demand"])),
    ),
    h(
      "table",
      { "aria-label": "What waits for room" },
      tableHead(["number", "Waits"], ["", "Needs"], ["mid number", "Nodes"], ["number", "Since"]),
      h("tbody", null, demand.Classes.map(row)),
    ),
    demand.More ? h("p", { class: "quiet-note" }, `The first ${count(ROWS)} of more.`) : null,
  );
}

/** @param {DemandClass} waiting */
function row(waiting) {
  const { OpenNodes: open, CapableNodes: capable } = waiting;
  return h(
    "tr",
    null,
    h("td", { class: "number" }, `${count(waiting.Slots)}${waiting.SlotsIsMore ? "+" : ""}`),
    h(
      "td",
      { class: "wrap" },
      needs(waiting).join(", "),
      h("span", { class: "muted" }, ` in ${waiting.Namespace}`),
      waiting.Message ? h("p", { class: "reason small" }, waiting.Message) : null,
    ),
    h(
      "td",
      { class: "mid number", title: "Nodes that take work, of those that could run it while they are empty" },
      `${count(open)} of ${count(capable)}`,
    ),
    h("td", { class: "number muted" }, timeAgo(waiting.Since)),
  );
}

/** @param {DemandClass} waiting */
function needs({ Engine, Resources: asked, Publisher, StorageSources, Constraints }) {
  return [
    Engine,
    asked.CPU === undefined ? "" : `${cores(asked.CPU)} CPU`,
    asked.Memory === undefined ? "" : bytes(asked.Memory),
    asked.Disk ? `${bytes(asked.Disk)} disk` : "",
    asked.GPU ? `${count(asked.GPU)} GPU` : "",
    Publisher ? `${Publisher} publisher` : "",
    ...StorageSources.map((source) => `${source} inputs`),
    ...Constraints.map(condition),
  ].filter(Boolean);
}

/** @param {Constraint} constraint */
function condition({ Key, Operator, Values }) {
  if (Operator === "!") return `no ${Key}`;
  if (Operator === "exists") return Key;
  return `${Key} ${Operator} ${Values.length === 1 ? Values[0] : `(${Values.join(", ")})`}`;
}
