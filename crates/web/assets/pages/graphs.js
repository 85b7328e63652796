// The graphs of all namespaces that one sees, the newest first.

import { get, path } from "../api.js";
import { timeAgo } from "../elements/clock.js";
import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { keepFresh } from "../fresh.js";
import { empty, failure, loading } from "../notes.js";
import { badge, jobLook } from "../state.js";

/** @import { GraphSummary, Shown, Visit } from "../../types.d.ts" */

// As many as a page of the service holds; older ones are found with jobctl.
const SHOWN = 100;

/** @param {Visit} visit @returns {Shown} */
export default function page(visit) {
  const body = h("div", { class: "table-box" }, loading());
  const element = h(
    "section",
    null,
    h("header", { class: "title" }, h("h1", { tabindex: -1 }, "Graphs")),
    body,
  );
  const refresh = keepFresh({
    signal: visit.signal,
    cares: (change) => change.jobs.size > 0,
    load: async (signal) => (await get(path(["graphs"], { namespace: "*", limit: SHOWN }), signal)).Graphs,
    show: (/** @type {GraphSummary[]} */ graphs) =>
      fill(body, graphs.length ? table(graphs) : empty("No graph yet: 'jobctl graph submit' makes one.")),
    fail: (error) => fill(body, failure(error, () => refresh())),
  });
  return { title: "Graphs", element };
}

/** @param {GraphSummary[]} graphs */
function table(graphs) {
  const row = (/** @type {GraphSummary} */ { ID, Name, Namespace, State, Jobs, CreateTime }) =>
    h(
      "tr",
      null,
      h("td", { class: "wrap" }, h("a", { href: `/graphs/${ID}` }, Name)),
      h("td", null, Namespace),
      h("td", null, badge(jobLook(State))),
      h(
        "td",
        null,
        Object.entries(Jobs).map(([state, jobs]) => `${count(jobs)} ${state.toLowerCase()}`).join(", "),
      ),
      h("td", null, timeAgo(CreateTime)),
    );
  const words = ["Name", "Namespace", "State", "Jobs", "Submitted"];
  return h(
    "table",
    { "aria-label": "Graphs" },
    h("thead", null, h("tr", null, words.map((word) => h("th", null, word)))),
    h("tbody", null, graphs.map(row)),
  );
}
