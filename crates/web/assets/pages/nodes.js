// The list of nodes: what each is doing, how full it is, and which of them need someone.

import { all, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { showDemand } from "../demand.js";
import { usage } from "../elements/bar.js";
import { timeAgo } from "../elements/clock.js";
import { copyButton, copyLines } from "../elements/copy.js";
import { fill, h, reconcile, tableHead } from "../dom.js";
import { bytes, cores, count, nodeName, plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { choice, typed } from "../elements/fields.js";
import { nodeListArguments } from "../lines.js";
import { joinCommands } from "../join.js";
import { showMembers } from "../members.js";
import { empty, failure, loading } from "../notes.js";
import { rewriteQuery } from "../router.js";
import { badge, nodeLook } from "../state.js";

/** @import { NodeRecord, Shown, Visit } from "../../types.d.ts" */

const MOST_ROWS = 500;
// A heartbeat changes no record, so what it brings is read at this pace.
const HEARTBEATS_MS = 10_000;

/** @type {[string, string][]} */
const ORDERS = [["", "In order of IDs"], ["available_cpu", "Most CPU free"], [
  "available_memory",
  "Most memory free",
], [
  "available_disk",
  "Most disk free",
], ["available_gpu", "Most GPUs free"]];

/** @param {Visit} visit @returns {Shown} */
export default function nodes(visit) {
  let labels = visit.query.get("labels") ?? "";
  let order = visit.query.get("order") ?? "";
  const body = h("tbody");
  const table = h("table", { "aria-label": "Nodes" }, head(), body);
  const summary = h("p", { class: "facts" });
  const box = h("div", { class: "table-box" }, loading());
  const demand = h("div");
  showDemand(demand, visit.signal);
  const members = h("div");
  showMembers(members, visit.signal);
  const again = () => {
    const query = new URLSearchParams();
    if (labels) query.set("labels", labels);
    if (order) query.set("order", order);
    rewriteQuery(query);
    refresh();
  };
  const input = typed("Labels: zone in (a,b)", "Selector of labels", labels, "text", (text) => {
    labels = text;
    again();
  });
  const url = (/** @type {string} */ token, /** @type {number} */ limit) =>
    path(["nodes"], { limit, next_token: token, labels, order_by: order, reverse: order !== "" });
  const refresh = keepFresh({
    signal: visit.signal,
    cares: (change) => change.nodes.size > 0 || change.cluster,
    load: (signal) => all(url, "Nodes", MOST_ROWS, signal),
    show: ({ rows, more }) => {
      const isEmpty = rows.every((/** @type {NodeRecord} */ node) => node.NodeType === "Requester");
      if (isEmpty && !labels) return fill(box, noNode());
      if (!rows.length) return fill(box, noMatch());
      if (!table.isConnected) fill(box, summary, table);
      fill(
        summary,
        plural(rows.length, "node"),
        more ? `: the first ${count(MOST_ROWS)}; a selector shows others` : "",
      );
      reconcile(body, rows, (node) => node.PeerInfo.ID, nodeRow);
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  const beat = setInterval(() => document.hidden || refresh(), HEARTBEATS_MS);
  visit.signal.addEventListener("abort", () => clearInterval(beat));
  return {
    title: "Nodes",
    element: h(
      "section",
      null,
      h("header", { class: "title" }, h("h1", null, "Nodes")),
      h(
        "div",
        { class: "toolbar" },
        input,
        choice("Order", ORDERS, order, (value) => {
          order = value;
          again();
        }),
        copyLines(
          "this list",
          () => curl("GET", url("", MOST_ROWS)),
          () => jobctl(nodeListArguments({ labels, order })),
        ),
      ),
      demand,
      box,
      members,
    ),
  };
}

function noNode() {
  const text =
    "An agent on any machine joins by itself when it starts; it dials out, so it needs no open port:";
  return empty("No node has joined", h("p", null, text), joinCommands());
}

function noMatch() {
  const example = h("code", null, "zone in (a,b), !gpu");
  return empty(
    "No node matches this selector",
    h("p", null, "A selector such as ", example, " chooses by labels."),
  );
}

function head() {
  return tableHead(
    ["fit", "State"],
    ["", "Node"],
    ["number", "Runs"],
    ["mid meter", "CPU used"],
    ["mid meter", "Memory used"],
    ["wide meter", "Disk used"],
    ["wide", "Engines"],
    ["mid number", "Heartbeat"],
  );
}

/** @param {NodeRecord} node @param {HTMLElement | undefined} before */
function nodeRow(node, before) {
  const version = JSON.stringify(node);
  if (before?.dataset.version === version) return before;
  const { ID: id } = node.PeerInfo;
  const info = node.ComputeNodeInfo;
  const computes = node.NodeType !== "Requester";
  const free = info.AvailableCapacity;
  const most = info.MaxCapacity;
  return h(
    "tr",
    { data: { version } },
    h("td", { class: "fit" }, badge(nodeLook(node))),
    h(
      "td",
      null,
      h("a", { class: "main", href: `/nodes/${id}`, title: id }, nodeName(node)),
      " ",
      copyButton(() => id, `Copy ${id}`),
      computes ? note(node) : h("p", { class: "reason small" }, "The orchestrator itself; it runs no tasks."),
      labelText(node),
    ),
    h(
      "td",
      { class: "number" },
      computes
        ? `${info.RunningExecutions}${info.EnqueuedExecutions ? ` +${info.EnqueuedExecutions}` : ""}`
        : "–",
    ),
    h("td", { class: "mid meter" }, computes ? usage(most.CPU - free.CPU, most.CPU, cores) : "–"),
    h("td", { class: "mid meter" }, computes ? usage(most.Memory - free.Memory, most.Memory, bytes) : "–"),
    h("td", { class: "wide meter" }, computes ? usage(most.Disk - free.Disk, most.Disk, bytes) : "–"),
    h(
      "td",
      { class: "wide" },
      info.ExecutionEngines.join(", ") || "–",
      most.GPU ? `, ${plural(most.GPU, "GPU")}` : "",
    ),
    h("td", { class: "mid number muted" }, timeAgo(node.LastHeartbeat)),
  );
}

/** @param {NodeRecord} node */
function note(node) {
  const parts = [];
  if (node.Health.State !== "HEALTHY" && node.Health.Reason) parts.push(node.Health.Reason);
  if (node.RefusedAgent) parts.push(`a second agent on ${node.RefusedAgent.Machine} is refused`);
  if (node.ReservedSince) parts.push("kept free for a job that has waited for too long");
  if (node.Membership === "PENDING") parts.push("an operator has to approve it");
  return parts.length ? h("p", { class: "reason small" }, parts.join("; ")) : null;
}

const KNOWN = ["hostname", "Architecture", "Operating-System"];

/** @param {NodeRecord} node */
function labelText(node) {
  const labels = Object.entries(node.Labels).filter(([key]) => !KNOWN.includes(key));
  return labels.length
    ? h(
      "span",
      { class: "labels" },
      labels.slice(0, 6).map(([key, value]) =>
        h("span", { class: "label" }, value ? `${key}=${value}` : key)
      ),
    )
    : null;
}
