// One node: its state and capacity, what runs on it, what became of it, and what an operator can do.

import { change, get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { usage } from "../elements/bar.js";
import { runTime, timeAgo } from "../elements/clock.js";
import { copyButton, copyLines, idText } from "../elements/copy.js";
import { eventHead, eventRow } from "../elements/event.js";
import { fill, h, reconcile } from "../dom.js";
import { bytes, cores, nodeName, plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { learnNode } from "../names.js";
import { nodeUsage } from "../job/usage.js";
import { nodeActions } from "../node-actions.js";
import { failure, loading } from "../notes.js";
import { retitle } from "../router.js";
import { session } from "../session.js";
import { icon } from "../icons.js";
import { badge, executionLook, nodeLook } from "../state.js";

/** @import { Execution, HistoryEvent, NodeRecord, Shown, Visit } from "../../types.d.ts" */

const MOST_EXECUTIONS = 100;
const MOST_EVENTS = 1000;
const SHOWN_EVENTS = 100;
const HEARTBEATS_MS = 10_000;

/** @param {Visit} visit @returns {Shown} */
export default function page(visit) {
  const asked = visit.params.id;
  const head = h("div", null, loading());
  const usage = h("div");
  const live = h("div");
  const history = h("div");
  let id = "";

  const refresh = keepFresh({
    signal: visit.signal,
    cares: (change) => change.cluster || change.nodes.has(id),
    load: async (signal) => {
      const { Node } = await get(path(["nodes", asked]), signal);
      id = Node.PeerInfo.ID;
      const computes = Node.NodeType !== "Requester";
      const [executions, events] = await Promise.all([
        computes ? get(path(["executions"], { ...liveOn(id), limit: MOST_EXECUTIONS }), signal) : null,
        computes ? get(path(["nodes", id, "history"], { limit: MOST_EVENTS }), signal) : null,
      ]);
      return { node: Node, executions, events };
    },
    show: ({ node, executions, events }) => {
      learnNode(node);
      retitle(nodeName(node));
      showHead(head, node, executions?.Executions.length ?? 0, refresh);
      if (executions && !usage.firstChild) fill(usage, nodeUsage(id, visit.signal));
      if (executions) showExecutions(live, id, executions.Executions, executions.NextToken !== "");
      if (events) showHistory(history, id, events.History);
    },
    fail: (error) =>
      id
        ? undefined
        : fill(head, h("header", { class: "title" }, h("h1", null, "Node ", asked)), failure(error, refresh)),
  });
  const beat = setInterval(() => document.hidden || refresh(), HEARTBEATS_MS);
  visit.signal.addEventListener("abort", () => clearInterval(beat));
  return { title: `Node ${asked}`, element: h("section", null, head, usage, live, history) };
}

/** @param {HTMLElement} box @param {NodeRecord} node @param {number} running @param {() => void} refresh */
function showHead(box, node, running, refresh) {
  const version = JSON.stringify([{ ...node, LastHeartbeat: "" }, running]);
  const beat = box.querySelector("[data-beat]");
  if (box.dataset.version === version && beat) return fill(beat, timeAgo(node.LastHeartbeat));
  const focused = box.contains(document.activeElement) ? document.activeElement?.textContent : null;
  box.dataset.version = version;
  const computes = node.NodeType !== "Requester";
  const send = async (/** @type {"PUT" | "DELETE"} */ method, /** @type {any} */ body, query = {}) => {
    await change(method, path(["nodes", node.PeerInfo.ID], query), body);
    refresh();
  };
  fill(
    box,
    h(
      "header",
      { class: "title" },
      h("h1", null, nodeName(node)),
      badge(nodeLook(node), "pill"),
      idText(node.PeerInfo.ID),
      computes && session.may("operate") ? nodeActions(node, running, send) : null,
    ),
    trouble(node, running),
    h(
      "div",
      { class: "columns" },
      computes
        ? h(
          "section",
          { class: "section" },
          h("header", null, h("h2", null, "Capacity given to executions")),
          capacity(node),
        )
        : null,
      h(
        "section",
        { class: "section" },
        header("Record", "the node", ["nodes", node.PeerInfo.ID], ["node", "describe", node.PeerInfo.ID]),
        record(node),
      ),
    ),
  );
  if (focused) {
    const again = [...box.querySelectorAll("button")].find((button) => button.textContent === focused);
    again?.focus({ preventScroll: true });
  }
}

/**
 * The head of a section, with the lines that read the same in a terminal.
 * @param {string} title @param {string} what @param {string[]} parts @param {string[]} words
 * @param {Record<string, string>} [query]
 */
function header(title, what, parts, words, query) {
  const copies = copyLines(what, () => curl("GET", path(parts, query)), () => jobctl(words));
  return h("header", null, h("h2", null, title), copies);
}

/** What selects the live executions of a node. @param {string} id */
function liveOn(id) {
  return { node_id: id, state: "live" };
}

/** What needs someone, in words. @param {NodeRecord} node @param {number} running */
function trouble(node, running) {
  /** @type {(Node | string)[][]} */
  const lines = [];
  if (node.Membership === "PENDING") {
    lines.push(["It wants to join and gets no work until an operator approves it."]);
  }
  if (node.Membership === "REJECTED") lines.push(["An operator rejected it; it gets no work."]);
  if (node.Connection !== "CONNECTED") {
    lines.push([
      h("span", null, "Silent since ", timeAgo(node.Health.Since || node.LastHeartbeat)),
      node.Health.Reason ? `: ${node.Health.Reason}.` : ".",
    ]);
  } else if (node.Health.State !== "HEALTHY") {
    lines.push([
      node.Health.Reason ? `${badgeWord(node)}: ${node.Health.Reason}` : badgeWord(node),
      node.Health.NextTry ? h("span", null, "; it gets work again ", timeAgo(node.Health.NextTry)) : "",
      ".",
    ]);
  }
  if (node.Eligibility === "DRAINING") {
    lines.push([
      running
        ? `Draining: ${plural(running, "execution")} still here, moving elsewhere.`
        : "Drained: nothing runs here any more, and it gets no new work.",
    ]);
  }
  if (node.Eligibility === "CORDONED") lines.push(["Cordoned: it gets no new work; what runs goes on."]);
  if (node.RefusedAgent) {
    lines.push([
      `A second agent on ${node.RefusedAgent.Machine} has a copy of its data directory; refused since `,
      timeAgo(node.RefusedAgent.Since),
      ".",
    ]);
  }
  if (node.ReservedSince) {
    lines.push([
      h(
        "span",
        null,
        "Kept free since ",
        timeAgo(node.ReservedSince),
        " for a job that has waited for room for too long.",
      ),
    ]);
  }
  if (!lines.length) return null;
  const tone = nodeLook(node).tone === "attention" ? "attention" : "waiting";
  return h(
    "div",
    { class: `panel ${tone}` },
    lines.map((line) => h("p", null, icon(tone === "attention" ? "warning" : "minus"), " ", ...line)),
  );
}

/** @param {NodeRecord} node */
function badgeWord(node) {
  return nodeLook(node).word;
}

/** @param {NodeRecord} node */
function capacity(node) {
  const { MaxCapacity: most, AvailableCapacity: free, MaxJobRequirements: job } = node.ComputeNodeInfo;
  const row = (
    /** @type {string} */ name,
    /** @type {Node} */ bar,
  ) => [h("dt", null, name), h("dd", null, bar)];
  const limits = [
    `${cores(job.CPU)} CPU`,
    bytes(job.Memory),
    job.Disk ? `${bytes(job.Disk)} disk` : "",
    job.GPU ? `${job.GPU} GPU` : "",
  ].filter(Boolean).join(", ");
  return h(
    "dl",
    { class: "pairs padded" },
    row("CPU", usage(most.CPU - free.CPU, most.CPU, cores)),
    row("Memory", usage(most.Memory - free.Memory, most.Memory, bytes)),
    row("Disk", usage(most.Disk - free.Disk, most.Disk, bytes)),
    most.GPU ? row("GPU", usage(most.GPU - free.GPU, most.GPU, String)) : [],
    h("dt", null, "Largest job"),
    h("dd", null, limits),
  );
}

/** @param {NodeRecord} node */
function record(node) {
  const info = node.ComputeNodeInfo;
  const version = node.ServiceVersion ?? {};
  const labels = Object.entries(node.Labels);
  const pair = (/** @type {string} */ name, /** @type {any} */ value) =>
    value ? [h("dt", null, name), h("dd", null, value)] : [];
  return h(
    "dl",
    { class: "pairs padded" },
    pair("Heartbeat", h("span", { data: { beat: "" } }, timeAgo(node.LastHeartbeat))),
    pair("Idle", node.IdleSince ? h("span", null, "since ", timeAgo(node.IdleSince)) : ""),
    pair("Engines", info.ExecutionEngines.join(", ")),
    pair("Inputs", info.StorageSources.join(", ")),
    pair("Publishers", info.Publishers.join(", ")),
    pair("Addresses", node.PeerInfo.Addrs.join(", ")),
    pair("Version", `${version.GitVersion ?? ""} ${version.GOOS ?? ""}/${version.GOARCH ?? ""}`),
    pair(
      "Labels",
      labels.length
        ? h(
          "span",
          { class: "labels" },
          labels.map(([key, value]) => h("span", { class: "label" }, value ? `${key}=${value}` : key)),
        )
        : "",
    ),
  );
}

/** @param {HTMLElement} box @param {string} id @param {Execution[]} rows @param {boolean} more */
function showExecutions(box, id, rows, more) {
  if (!box.firstChild) {
    fill(
      box,
      h(
        "section",
        { class: "section" },
        header(
          "Live executions",
          "the live executions",
          ["executions"],
          ["executions", "--node", id],
          liveOn(id),
        ),
        h("div"),
      ),
    );
  }
  const body = /** @type {HTMLElement} */ (box.querySelector("section > div"));
  if (!rows.length) return fill(body, h("p", { class: "quiet-note" }, "Nothing runs here now."));
  fill(
    body,
    h(
      "table",
      { "aria-label": "Live executions" },
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          ["State", "Execution", "Job"].map((word) =>
            h("th", { scope: "col", class: word === "Job" ? "mid" : "" }, word)
          ),
          h("th", { class: "number", scope: "col" }, "Age"),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row) =>
          h(
            "tr",
            null,
            h("td", { class: "fit" }, badge(executionLook(row.ComputeState.StateType))),
            h(
              "td",
              null,
              h("a", { class: "main", href: `/executions/${row.ID}`, title: row.ID }, row.Name),
              " ",
              copyButton(() => row.ID, `Copy ${row.ID}`),
              row.ComputeState.StateType === 3 && row.ComputeState.Message
                ? h("p", { class: "reason small" }, row.ComputeState.Message)
                : null,
            ),
            h(
              "td",
              { class: "mid fit" },
              h("a", { href: `/jobs/${row.JobID}`, title: row.JobID }, row.Name.replace(/\[\d+\]$/, "")),
            ),
            h("td", { class: "number" }, runTime(row.CreateTime, 0)),
          )
        ),
      ),
    ),
    more ? h("p", { class: "quiet-note" }, `The first ${MOST_EXECUTIONS}.`) : null,
  );
}

/** @param {HTMLElement} box @param {string} id @param {HistoryEvent[]} events */
function showHistory(box, id, events) {
  if (!box.firstChild) {
    fill(
      box,
      h(
        "section",
        { class: "section" },
        header("History", "the history", ["nodes", id, "history"], ["node", "history", id]),
        h("div"),
      ),
    );
  }
  const body = /** @type {HTMLElement} */ (box.querySelector("section > div"));
  const newest = [...events].reverse().slice(0, SHOWN_EVENTS);
  let table = body.querySelector("tbody");
  if (!table) {
    table = h("tbody");
    fill(
      body,
      h("table", { "aria-label": "History of the node", class: "node-history" }, eventHead(false), table),
    );
  }
  reconcile(
    table,
    newest,
    (event) => String(event.NewRevision),
    (event, before) => before ?? eventRow({ key: "", id: 0, events: [event], count: 1 }, false),
  );
}
