// Looks up what was typed into the search: any ID leads to its record, any other text to jobs and nodes that contain it.

import { change, get, path } from "../api.js";
import { h } from "../dom.js";
import { kindOfId, nodeName, short } from "../format.js";
import { icon } from "../icons.js";
import { session } from "../session.js";
import { badge, isEnded, jobLook, nodeLook } from "../state.js";
import { readTyped } from "./verbs.js";

/** @import { Job, NodeRecord } from "../../types.d.ts" */

const MOST = 6;

/** A row of the list: where it leads, or what it does. @typedef {{ url?: string, act?: () => Promise<unknown>, element: Element[] }} Hit */

/** @param {string} typed @param {AbortSignal} signal @returns {Promise<{ hits: Hit[], note: string }>} */
export async function lookUp(typed, signal) {
  const { verb, text } = readTyped(typed);
  const found = await find(text, signal);
  if (verb) {
    const hits = [
      ...found.jobs.flatMap((job) => jobActions(job).filter((hit) => hit.verb === verb)),
      ...found.nodes.flatMap((node) => nodeActions(node).filter((hit) => hit.verb === verb)),
    ];
    return { hits, note: hits.length ? "" : `Nothing that contains '${text}' offers '${verb}' to you.` };
  }
  const hits = [...found.others, ...found.jobs.map(jobHit), ...found.nodes.map(nodeHit)];
  const only = hits.length === 1;
  if (only && found.jobs[0]) hits.push(...jobActions(found.jobs[0]));
  if (only && found.nodes[0]) hits.push(...nodeActions(found.nodes[0]));
  const byPrefix = `/jobs?name_prefix=${encodeURIComponent(text)}&namespace=*`;
  if (found.more) hits.push(listed(byPrefix, `All jobs whose names begin with '${text}'`));
  else if (found.older) hits.push(listed(byPrefix, `Older jobs whose names begin with '${text}'`));
  return { hits, note: note(found, text) };
}

/** @typedef {{ jobs: Job[], nodes: NodeRecord[], others: Hit[], more: boolean, older: boolean }} Found */

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Found>} */
async function find(text, signal) {
  const nothing = { jobs: [], nodes: [], others: [], more: false, older: false };
  const kind = kindOfId(text);
  const id = text.toLowerCase();
  if (kind === "job") return { ...nothing, jobs: [(await get(path(["jobs", id]), signal)).Job] };
  if (kind === "node") return { ...nothing, nodes: [(await get(path(["nodes", id]), signal)).Node] };
  if (kind === "execution") {
    const { Execution } = await get(path(["executions", id]), signal);
    return {
      ...nothing,
      others: [{
        url: `/executions/${Execution.ID}`,
        element: [icon("jobs"), grow(Execution.Name), idOf(Execution.ID)],
      }],
    };
  }
  const answer = await get(path(["search"], { text, limit: MOST }), signal);
  return {
    jobs: answer.Jobs,
    nodes: answer.Nodes,
    others: [],
    more: answer.MoreJobs,
    older: answer.OlderJobs,
  };
}

/** @param {Found} found @param {string} text */
function note(found, text) {
  if (found.older) return "Searched: live jobs, and the 10,000 that ended last.";
  if (found.jobs.length || found.nodes.length || found.others.length) return "";
  return `No name, ID or label contains '${text}'.`;
}

/** @param {Job} job @returns {Hit} */
function jobHit(job) {
  return {
    url: `/jobs/${job.ID}`,
    element: [badge(jobLook(job.State.StateType)), grow(job.Name), idOf(job.ID)],
  };
}

/** @param {NodeRecord} node @returns {Hit} */
function nodeHit(node) {
  return {
    url: `/nodes/${node.PeerInfo.ID}`,
    element: [badge(nodeLook(node)), grow(nodeName(node)), idOf(node.PeerInfo.ID)],
  };
}

/** @param {Job} job @returns {(Hit & { verb: string })[]} */
function jobActions(job) {
  if (!session.may("submit")) return [];
  const logs = {
    verb: "logs",
    url: `/jobs/${job.ID}/logs`,
    element: [icon("events"), grow(`Logs of ${job.Name}`), idOf(job.ID)],
  };
  if (isEnded(job.State.StateType)) return [logs];
  const act = async () => (await import("../jobs/stop.js")).stopJobs([job]);
  return [logs, { verb: "stop", act, element: [icon("cross"), grow(`Stop ${job.Name}…`), idOf(job.ID)] }];
}

/** @param {NodeRecord} node @returns {(Hit & { verb: string })[]} */
function nodeActions(node) {
  const drains = session.may("operate") && node.NodeType !== "Requester" && node.Membership === "APPROVED" &&
    node.Eligibility !== "DRAINING";
  if (!drains) return [];
  const id = node.PeerInfo.ID;
  const act = async () => {
    const { actOnNode } = await import("../node-actions.js");
    const running = await get(path(["executions"], { node_id: id, limit: 1000 }));
    await actOnNode(
      "drain",
      node,
      running.Executions.length,
      (method, body, query) => change(method, path(["nodes", id], query), body),
    );
  };
  return [{ verb: "drain", act, element: [icon("nodes"), grow(`Drain ${nodeName(node)}…`), idOf(id)] }];
}

/** @param {string} url @param {string} text @returns {Hit} */
function listed(url, text) {
  return { url, element: [icon("jobs"), grow(text)] };
}

/** @param {string} id */
function idOf(id) {
  return h("span", { class: "id" }, short(id));
}

/** @param {string} text */
function grow(text) {
  return h("span", { class: "grow" }, text);
}
