// Jobs that failed in the same way as one: of many runs of one job the first row says it all.

/** @import { Job } from "../../types.d.ts" */

/** What differs between equal failures: IDs, indexes and where they ran. */
const DIFFERENT = /\b[jen]-[0-9a-f]{8}[0-9a-f-]*|\[\d+\](?: on [^\s:]+)?|\(index \d+\)/g;

/** What is equal in jobs that failed in the same way. @param {Job} job */
function failureKey({ ID, Name, Namespace, State }) {
  // A name that was made of the ID differs in its last four characters alone.
  const made = `-${ID.slice(2, 6)}`;
  const name = Name.endsWith(made) ? Name.slice(0, -made.length) : Name;
  return JSON.stringify([Namespace, name, State.Message.replace(DIFFERENT, "#")]);
}

/** @typedef {{ job: Job, others: Job[] }} Group */

/**
 * @param {Job[]} jobs in the order in which they are listed
 * @returns {Group[]} the first of each kind, with the others
 */
export function alikeJobs(jobs) {
  /** @type {Map<string, Group>} */
  const found = new Map();
  for (const job of jobs) {
    const key = failureKey(job);
    const group = found.get(key);
    if (group) group.others.push(job);
    else found.set(key, { job, others: [] });
  }
  return [...found.values()];
}

/**
 * Failed jobs that follow one another in a list, in groups of those that failed in the same way.
 * @param {Job[]} jobs @returns {Group[]} groups of several
 */
export function runsOfFailures(jobs) {
  /** @type {Group[]} */
  const groups = [];
  /** @type {Group | null} */
  let last = null;
  for (const job of jobs) {
    if (job.State.StateType !== "Failed") last = null;
    else if (last && failureKey(last.job) === failureKey(job)) last.others.push(job);
    else groups.push(last = { job, others: [] });
  }
  return groups.filter(({ others }) => others.length > 0);
}
