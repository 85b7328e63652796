// Finds the job of an execution by the execution's ID, and opens it there.

import { get, path } from "../api.js";
import { fill, h } from "../dom.js";
import { keepFresh } from "../fresh.js";
import { failure, loading } from "../notes.js";
import { go } from "../router.js";

/** @import { Shown, Visit } from "../../types.d.ts" */

/** @param {Visit} visit @returns {Shown} */
export default function execution(visit) {
  const { id } = visit.params;
  const body = h("div", null, loading());
  const element = h("section", null, h("header", { class: "title" }, h("h1", null, "Execution ", id)), body);
  const refresh = keepFresh({
    signal: visit.signal,
    cares: () => false,
    load: (signal) => get(path(["executions", id]), signal),
    show: ({ Execution }) => go(`/jobs/${Execution.JobID}?execution=${Execution.ID}`, { replace: true }),
    fail: (error) => fill(body, failure(error, refresh)),
  });
  return { title: `Execution ${id}`, element };
}
