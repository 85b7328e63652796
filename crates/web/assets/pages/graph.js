// One graph: its state, its picture, and a table of its jobs.

import { get, path } from "../api.js";
import { timeAgo } from "../elements/clock.js";
import { idText } from "../elements/copy.js";
import { fill, h } from "../dom.js";
import { count, plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { drawing } from "../graph/drawing.js";
import { stopGraph } from "../jobs/stop.js";
import { failure, loading } from "../notes.js";
import { retitle } from "../router.js";
import { session } from "../session.js";
import { badge, isEnded, jobLook } from "../state.js";

/** @import { Graph, Shown, Visit } from "../../types.d.ts" */

/** @param {Visit} visit @returns {Shown} */
export default function page(visit) {
  const { id } = visit.params;
  const element = h("section", null, loading());
  /** @type {Set<string>} */
  let jobs = new Set();
  let version = "";
  const refresh = keepFresh({
    signal: visit.signal,
    cares: (change) => [...change.jobs].some((job) => jobs.has(job)),
    load: async (signal) => (await get(path(["graphs", id]), signal)).Graph,
    show: (/** @type {Graph} */ graph) => {
      jobs = new Set(graph.Jobs.map(({ JobID }) => JobID));
      const next = JSON.stringify(graph);
      if (next === version) return;
      version = next;
      retitle(graph.Name);
      fill(element, head(graph, () => refresh()), drawing(graph), table(graph));
    },
    fail: (error) => fill(element, h("h1", null, "Graph ", id), failure(error, () => refresh())),
  });
  return { title: `Graph ${id}`, element };
}

/** @param {Graph} graph @param {() => void} refresh */
function head(graph, refresh) {
  const ended = isEnded(graph.State);
  /** @type {Map<string, number>} */
  const states = new Map();
  for (const { State } of graph.Jobs) states.set(State, (states.get(State) ?? 0) + 1);
  const counts = [...states].map(([state, jobs]) => `${count(jobs)} ${jobLook(state).word.toLowerCase()}`);
  return h(
    "div",
    null,
    h(
      "header",
      { class: "title" },
      h("h1", { tabindex: -1 }, graph.Name),
      badge(jobLook(graph.State), "pill"),
      idText(graph.ID),
      !ended && session.may("submit", graph.Namespace) && h(
        "div",
        { class: "actions" },
        h("button", {
          type: "button",
          class: "danger",
          onclick: async () => await stopGraph(graph) && refresh(),
        }, "Stop…"),
      ),
    ),
    h(
      "p",
      { class: "facts" },
      h("span", null, `${plural(graph.Jobs.length, "job")}: ${counts.join(", ")}`),
      h("span", null, "namespace ", h("strong", null, graph.Namespace)),
      h("span", null, "submitted ", timeAgo(graph.CreateTime)),
    ),
  );
}

/** @param {Graph} graph */
function table({ Jobs, Edges }) {
  const names = new Map(Jobs.map(({ JobID, Name }) => [JobID, Name]));
  /** @type {Map<string, (string | Node)[]>} */
  const after = new Map();
  for (const { From, To, Condition, Indexes } of Edges) {
    const said = after.get(To) ?? [];
    const link = h("a", { href: `/jobs/${From}` }, names.get(From) ?? From);
    const each = Indexes === "Same" ? ", index by index" : "";
    said.push(said.length ? ", " : "", link, ` (${Condition.toLowerCase()}${each})`);
    after.set(To, said);
  }
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { "aria-label": "Jobs of the graph" },
      h(
        "thead",
        null,
        h("tr", null, ["Job", "State", "After", "Message"].map((word) => h("th", null, word))),
      ),
      h(
        "tbody",
        null,
        Jobs.map(({ Name, JobID, State, Message }) =>
          h(
            "tr",
            null,
            h("td", { class: "wrap" }, h("a", { href: `/jobs/${JobID}` }, Name)),
            h("td", null, badge(jobLook(State))),
            h("td", { class: "wrap listed" }, after.get(JobID) ?? []),
            h("td", { class: "wrap" }, Message),
          )
        ),
      ),
    ),
  );
}
