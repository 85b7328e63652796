// Decides what the submit page begins with: a job to edit, the kept draft, or the first example.

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

/**
 * @param {string} from the job to edit, or ""
 * @param {AbortSignal} signal
 * @returns {Promise<{ draft: Draft, original: Json, name: string }>}
 */
export async function begin(from, signal) {
  const kept = savedDraft();
  if (!from) {
    if (kept && !kept.from) return { draft: kept, original: null, name: "" };
    return {
      draft: { text: jobText(atHome(EXAMPLES[0].job)), mode: "form", key: newKey(), from: "" },
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
