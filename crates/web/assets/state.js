// The icon, word and tone of every state; the only place that maps the API's states to what is shown. jobctl has the same words.

import { h } from "./dom.js";
import { icon } from "./icons.js";

/** @import { Look, Member, NodeRecord } from "../types.d.ts" */

/** @type {Record<string, Look>} */
const JOBS = {
  Pending: { word: "Pending", tone: "waiting", icon: "dotted" },
  Queued: { word: "Queued", tone: "waiting", icon: "clock" },
  Running: { word: "Running", tone: "running", icon: "play" },
  Completed: { word: "Completed", tone: "completed", icon: "check" },
  Failed: { word: "Failed", tone: "failed", icon: "cross" },
  Stopped: { word: "Stopped", tone: "waiting", icon: "stop" },
};

/** @type {Record<number, Look>} */
const EXECUTIONS = {
  1: { word: "New", tone: "waiting", icon: "dotted" },
  2: { word: "Offered", tone: "waiting", icon: "dotted" },
  3: { word: "Accepted", tone: "waiting", icon: "clock" },
  4: { word: "Declined", tone: "waiting", icon: "minus" },
  5: { word: "Running", tone: "running", icon: "play" },
  6: { word: "Unwanted", tone: "waiting", icon: "minus" },
  7: { word: "Completed", tone: "completed", icon: "check" },
  8: { word: "Failed", tone: "failed", icon: "cross" },
  9: { word: "Cancelled", tone: "waiting", icon: "stop" },
};

/** The words of a node's record and of its history. @type {Record<string, Look>} */
const NODES = {
  UNKNOWN: { word: "Unknown", tone: "waiting", icon: "dotted" },
  CONNECTED: { word: "Connected", tone: "completed", icon: "check" },
  DISCONNECTED: { word: "Silent", tone: "attention", icon: "warning" },
  PENDING: { word: "Pending", tone: "attention", icon: "warning" },
  APPROVED: { word: "Approved", tone: "completed", icon: "check" },
  REJECTED: { word: "Rejected", tone: "waiting", icon: "cross" },
  ELIGIBLE: { word: "Eligible", tone: "completed", icon: "check" },
  CORDONED: { word: "Cordoned", tone: "waiting", icon: "minus" },
  DRAINING: { word: "Draining", tone: "running", icon: "clock" },
  DRAINED: { word: "Drained", tone: "waiting", icon: "check" },
  HEALTHY: { word: "Healthy", tone: "completed", icon: "check" },
  BACKING_OFF: { word: "Backing-off", tone: "attention", icon: "warning" },
  PROBING: { word: "Probing", tone: "attention", icon: "warning" },
  STALLED: { word: "Stalled", tone: "attention", icon: "warning" },
  SILENT: { word: "Silent", tone: "attention", icon: "warning" },
};

/** The words that an event of a job, an execution or a node may say. */
export const EVENT_WORDS = [
  ...new Set([JOBS, EXECUTIONS, NODES].flatMap(Object.values).map(({ word }) => word)),
];

export const JOB_STATES = Object.keys(JOBS);
export const ENDED_JOBS = ["Completed", "Failed", "Stopped"];

/** @param {string} word @returns {Look} */
const unknown = (word) => ({ word, tone: "waiting", icon: "dotted" });

/** @param {string} state */
export function jobLook(state) {
  return JOBS[state] ?? unknown(state);
}

/** @param {number} state */
export function executionLook(state) {
  return EXECUTIONS[state] ?? unknown(String(state));
}

/** @param {string} word */
export function nodeWord(word) {
  return NODES[word] ?? unknown(word);
}

/** The one state of a node that matters most. @param {NodeRecord} node @returns {Look} */
export function nodeLook(node) {
  if (node.Membership !== "APPROVED") return nodeWord(node.Membership);
  if (node.Connection !== "CONNECTED") return nodeWord("SILENT");
  if (node.Eligibility !== "ELIGIBLE") return nodeWord(node.Eligibility);
  if (node.Health.State !== "HEALTHY") return nodeWord(node.Health.State);
  return nodeWord("CONNECTED");
}

/** @param {Member} member @returns {Look} */
export function memberLook({ Leads, Ready }) {
  if (Leads) return { word: "Leads", tone: "completed", icon: "check" };
  if (Ready) return { word: "Ready", tone: "waiting", icon: "clock" };
  return { word: "Not ready", tone: "attention", icon: "warning" };
}

/** @param {string} state */
export function isEnded(state) {
  return ENDED_JOBS.includes(state);
}

/** States from 4 on other than 5 are terminal. @param {number} state */
export function isEndedExecution(state) {
  return state >= 4 && state !== 5;
}

/** @param {Look} look @param {string} [extra] further classes, such as `pill` */
export function badge(look, extra = "") {
  return h("span", { class: `state ${look.tone} ${extra}` }, icon(look.icon), look.word);
}
