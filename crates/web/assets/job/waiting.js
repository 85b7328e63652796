// The waiting panel: why a job waits, on which nodes, how many jobs are ahead, and what failed so far.

import { path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { h } from "../dom.js";
import { count, plural, short } from "../format.js";
import { icon } from "../icons.js";
import { joinCommands } from "../join.js";
import { executionLook } from "../state.js";

/** @import { Explanation, NodeVerdict } from "../../types.d.ts" */

const NEVER = /can ever (take|fit)/;
const NODES_NAMED = 8;

/** @param {Explanation} explanation */
export function waitingPanel(explanation) {
  const { Waiting: waiting, Nodes: nodes, Failures: failures } = explanation;
  const parts = [];
  if (waiting) parts.push(waits(explanation, waiting, nodes));
  if (failures.length) parts.push(failed(failures));
  return parts.length ? h("div", null, parts) : null;
}

/**
 * @param {Explanation} explanation
 * @param {NonNullable<Explanation["Waiting"]>} waiting @param {NodeVerdict[]} nodes
 */
function waits(explanation, waiting, nodes) {
  const none = nodes.length === 0;
  const hopeless = none || NEVER.test(explanation.Message);
  const slots = waiting.Slots === explanation.Executions.Total
    ? ""
    : ` for ${plural(waiting.Slots, "execution")}`;
  return h(
    "section",
    { class: `panel ${hopeless ? "attention" : "waiting"}`, "aria-label": "Why this job waits" },
    h(
      "h2",
      { class: hopeless ? "tone-attention" : "" },
      icon(hopeless ? "warning" : "clock"),
      none ? "Waits for a node to join" : `Waits for room${slots}`,
    ),
    h("p", { class: "message" }, explanation.Message),
    h(
      "p",
      { class: "facts" },
      h("span", null, "waiting since ", timeAgo(waiting.Since)),
      h("span", null, ahead(waiting)),
      waiting.ReservedNode
        ? h(
          "span",
          null,
          "node ",
          h("a", { href: `/nodes/${waiting.ReservedNode}` }, short(waiting.ReservedNode)),
          " is kept free for it",
        )
        : null,
      copyLines(
        "why this job waits",
        () => curl("GET", path(["jobs", explanation.JobID, "explain"])),
        () => jobctl(["explain", explanation.JobID]),
      ),
    ),
    none ? joinCommands() : byReason(nodes),
  );
}

/** @param {NonNullable<Explanation["Waiting"]>} waiting */
function ahead(waiting) {
  if (waiting.AheadIsMore) return `more than ${count(waiting.Ahead)} jobs are ahead`;
  if (waiting.Ahead === 0) return "no job is ahead";
  return waiting.Ahead === 1 ? "1 job is ahead" : `${count(waiting.Ahead)} jobs are ahead`;
}

/** The nodes in groups of one reason each, the largest first. @param {NodeVerdict[]} nodes */
export function byReason(nodes) {
  /** @type {Map<string, NodeVerdict[]>} */
  const groups = new Map();
  for (const node of nodes) groups.set(node.Reason, [...(groups.get(node.Reason) ?? []), node]);
  const sorted = [...groups].sort(([, a], [, b]) =>
    Number(b[0].Chosen) - Number(a[0].Chosen) || b.length - a.length
  );
  return h(
    "table",
    { "aria-label": "Nodes by reason", class: "plain" },
    h(
      "tbody",
      null,
      sorted.map(([reason, group]) =>
        h(
          "tr",
          { class: "flat" },
          h(
            "td",
            { class: "fit" },
            h(
              "span",
              { class: group[0].Chosen ? "tone-completed" : "" },
              icon(group[0].Chosen ? "check" : "minus"),
              ` ${plural(group.length, "node")}`,
            ),
          ),
          h("td", { class: "wrap" }, reason),
          h("td", { class: "wrap" }, names(group)),
        )
      ),
    ),
  );
}

/** @param {NodeVerdict[]} group */
function names(group) {
  const links = group.slice(0, NODES_NAMED).flatMap((
    node,
  ) => [h("a", { class: "id", href: `/nodes/${node.NodeID}`, title: node.NodeID }, short(node.NodeID)), " "]);
  return [...links, group.length > NODES_NAMED ? `and ${count(group.length - NODES_NAMED)} more` : null];
}

/** @param {Explanation["Failures"]} failures */
function failed(failures) {
  const shown = failures.slice(0, 3);
  return h(
    "section",
    { class: "panel failed", "aria-label": "What has failed so far" },
    h(
      "h2",
      { class: "tone-failed" },
      icon("cross"),
      `${failures.length >= 100 ? "100 or more" : failures.length} ${
        failures.length === 1 ? "failure" : "failures"
      } so far`,
    ),
    h(
      "ul",
      { class: "plain-list" },
      shown.map((failure) =>
        h(
          "li",
          null,
          h("span", { class: "wrap" }, failure.Reason || executionLook(failure.State).word),
          " ",
          h(
            "a",
            { class: "id", href: `/executions/${failure.ExecutionID}`, title: failure.ExecutionID },
            short(failure.ExecutionID),
          ),
          " on ",
          h(
            "a",
            { class: "id", href: `/nodes/${failure.NodeID}`, title: failure.NodeID },
            short(failure.NodeID),
          ),
          ", ",
          timeAgo(failure.Time),
        )
      ),
    ),
  );
}
