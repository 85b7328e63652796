// The jobs after which a job starts.

import { h } from "../dom.js";

/** @import { Job } from "../../types.d.ts" */

/** What has to become of each, by its condition. @type {Record<string, string>} */
const WORDS = { Completed: "completes", Failed: "fails", Ended: "ends" };

/**
 * The results of other jobs that the task reads, by the jobs that it depends on.
 * @param {Job} job @returns {{ JobID: string, Job?: string, Path?: string, Index?: number | string }[]}
 */
function inputs({ Tasks }) {
  const tasks = /** @type {{ InputSources?: { Source: { Type: string, Params: any } }[] }[]} */ (Tasks ?? []);
  return tasks.flatMap(({ InputSources }) => InputSources ?? [])
    .filter(({ Source }) => Source.Type === "job" && Source.Params?.JobID)
    .map(({ Source }) => Source.Params);
}

/** Of which indexes, in words. @param {number | string | undefined} index */
function ofIndexes(index) {
  if (index === undefined || index === null) return "";
  return index === "Same" ? ", the same index" : `, index ${index}`;
}

/** A line with links, or nothing of a job that waits for no other and is in no graph. @param {Job} job */
export function dependencies(job) {
  const { DependsOn: named = [], Meta } = job;
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
      named.flatMap(({ JobID, Job, Condition, Indexes }, at) => [
        at ? (at + 1 < named.length ? ", " : " and ") : "",
        Indexes === "Same" ? "the same index of " : "",
        h("a", { href: `/jobs/${JobID}` }, Job || JobID),
        ` ${WORDS[Condition] ?? Condition}`,
      ]),
    ),
    inputs(job).map(({ JobID, Job, Path, Index }) =>
      h(
        "span",
        null,
        `reads ${Path || "everything"} of `,
        h("a", { href: `/jobs/${JobID}` }, Job || JobID),
        ofIndexes(Index),
      )
    ),
  );
}
