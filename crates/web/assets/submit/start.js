// Decides what the submit page begins with: a job to edit, the kept draft, or an example that the nodes can run.

import { get, path } from "../api.js";
import { resubmittable } from "./copy.js";
import { jobText, newKey, savedDraft } from "./draft.js";
import { EXAMPLES } from "./examples.js";
import { session } from "../session.js";

/** @import { Json } from "../../types.d.ts" */
/** @import { Draft } from "./draft.js" */

/** A job in the only namespace of the reader's role, unless that is the usual one. @param {Json} job @param {string} [home] */
export function atHome(job, home = session.home) {
  const { Name, ...rest } = job;
  return home ? { Name, Namespace: home, ...rest } : job;
}

/** The first example, unless an engine that a later one needs is all there is. @param {Json[]} nodes */
export function firstExample(nodes) {
  const connected = nodes.filter((node) => node.Connection === "CONNECTED");
  const engines = new Set(connected.flatMap((node) => node.ComputeNodeInfo?.ExecutionEngines ?? []));
  const runs = (/** @type {{ job: Json }} */ { job }) => engines.has(job.Tasks[0].Engine.Type);
  return EXAMPLES.find(runs) ?? EXAMPLES[0];
}

/** @param {AbortSignal} signal @returns {Promise<Json[]>} some of the nodes; none if they cannot be read */
async function someNodes(signal) {
  try {
    return (await get(path(["nodes"], { limit: 50 }), signal)).Nodes;
  } catch (error) {
    if (signal.aborted) throw error;
    return [];
  }
}

/**
 * @param {string} from the job to edit, or ""
 * @param {AbortSignal} signal
 * @returns {Promise<{ draft: Draft, original: Json, name: string }>}
 */
export async function begin(from, signal) {
  const kept = savedDraft();
  if (!from) {
    if (kept && !kept.from) return { draft: kept, original: null, name: "" };
    const { job } = firstExample(await someNodes(signal));
    return {
      draft: { text: jobText(atHome(job)), mode: "form", key: newKey(), from: "" },
      original: null,
      name: "",
    };
  }
  const { Job } = await get(path(["jobs", from]), signal);
  const original = resubmittable(Job);
  const draft = kept && kept.from === Job.ID
    ? kept
    : { text: jobText(original), mode: /** @type {const} */ ("text"), key: newKey(), from: Job.ID };
  return { draft, original, name: Job.Name };
}
