// The jobs after which a job starts.

import { h } from "../dom.js";

/** @import { Job } from "../../types.d.ts" */

/** What has to become of each, by its condition. @type {Record<string, string>} */
const WORDS = { Completed: "completes", Failed: "fails", Ended: "ends" };

/** A line with links, or nothing of a job that waits for no other and is in no graph. @param {Job} job */
export function dependencies({ DependsOn: named = [], Meta }) {
  const graph = Meta?.["service.org/graph"];
  if (!named.length && !graph) return null;
  return h(
    "p",
    { class: "facts wrap" },
    graph ? h("span", null, "part of a ", h("a", { href: `/graphs/${graph}` }, "graph")) : null,
    named.length > 0 && h(
      "span",
      null,
      "starts after ",
      named.flatMap(({ JobID, Job, Condition }, at) => [
        at ? (at + 1 < named.length ? ", " : " and ") : "",
        h("a", { href: `/jobs/${JobID}` }, Job || JobID),
        ` ${WORDS[Condition] ?? Condition}`,
      ]),
    ),
  );
}
