// What the lists and tabs show and do, as arguments of jobctl.

import { option } from "./commands.js";

/** @import { Filters } from "./jobs/filters.js" */

/** @type {Record<string, string[]>} */
const ORDERS = { newest: [], oldest: ["--reverse"], changed: ["--changed"] };

/** @param {Filters} filters @param {number} limit */
export function listArguments(filters, limit) {
  return [
    "list",
    ...(filters.namespace === "*" ? ["--all-namespaces"] : option("--namespace", filters.namespace)),
    ...option("--name-prefix", filters.prefix),
    ...option("--state", filters.states.join(",")),
    ...option("--type", filters.type),
    ...option("--selector", filters.labels),
    ...option("--since", filters.since),
    ...option("--before", filters.before),
    ...ORDERS[filters.order],
    ...option("--limit", limit),
  ];
}

/** @param {string[]} ids @param {string} reason */
export function stopArguments(ids, reason) {
  return ["stop", ...ids, ...option("--reason", reason)];
}

/** @param {string} id @param {string} only as the API has it @param {boolean} [downstream] */
export function rerunArguments(id, only, downstream) {
  const choice = { Failed: ["--failed"], NotCompleted: ["--not-completed"] }[only] ?? [];
  return ["rerun", id, ...choice, downstream ? "--downstream" : "--detach"];
}

/** @param {string} id @param {string} order as the table of executions has it @param {string} indexes */
export function executionArguments(id, order, indexes) {
  const sort = order === "created" ? [] : ["--sort", order, "--reverse"];
  return ["executions", id, ...option("--index", indexes), ...sort];
}

/** @param {string} id @param {{ execution: string, stream: string }} only */
export function logArguments(id, { execution, stream }) {
  return ["logs", id, "--follow", ...option("--execution", execution), ...option("--stream", stream)];
}

/** @param {string} id @param {{ kind: string, execution: string }} only */
export function historyArguments(id, { kind, execution }) {
  return ["history", id, ...(kind === "all" ? [] : ["--type", kind]), ...option("--execution", execution)];
}

/** @param {{ kind: string, namespace: string, since: string }} only */
export function eventArguments({ kind, namespace, since }) {
  return [
    ...["events", "--follow", "--since", since],
    ...option("--type", kind),
    ...(kind === "node" ? [] : namespace === "*" ? ["--all-namespaces"] : option("--namespace", namespace)),
  ];
}

/** @param {{ labels: string, order: string }} asked */
export function nodeListArguments({ labels, order }) {
  const sort = order ? ["--sort", order.replace("_", "-"), "--reverse"] : [];
  return ["node", "list", ...option("--selector", labels), ...sort];
}
