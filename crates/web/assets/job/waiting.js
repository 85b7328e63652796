// The waiting panel: why a job waits, what holds executions back, what would make it run, and what failed so far.

import { path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { timeAgo, timed } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { h } from "../dom.js";
import { count, plural } from "../format.js";
import { icon } from "../icons.js";
import { joinCommands } from "../join.js";
import { nodeLink } from "../names.js";
import { executionLook } from "../state.js";

/** @import { Explanation, ReasonGroup } from "../../types.d.ts" */

const FAILURES = 3;
// As many nodes as a group of the service names.
const NAMED = 5;

/** @param {Explanation} explanation */
export function waitingPanel(explanation) {
  const { Waiting: waiting, Failures: failures } = explanation;
  const parts = [];
  if (waiting) parts.push(waits(explanation, waiting));
  parts.push(...explanation.Gates.map((gate) => heldBack(explanation, gate)));
  if (failures.length) parts.push(failed(failures));
  return parts.length ? h("div", null, parts) : null;
}

/** @param {Explanation} explanation @param {NonNullable<Explanation["Waiting"]>} waiting */
function waits(explanation, waiting) {
  const { Title, Message, Hopeless, Groups, Nodes } = explanation;
  const none = Groups.some(({ Reason }) => Reason === "NoNode");
  const needsSomeone = Hopeless || none;
  const slots = waiting.Slots === explanation.Executions.Total
    ? null
    : h("span", null, `${plural(waiting.Slots, "execution")} of ${count(explanation.Executions.Total)} wait`);
  return h(
    "section",
    { class: `panel ${needsSomeone ? "attention" : "waiting"}`, "aria-label": "Why this job waits" },
    h(
      "h2",
      { class: needsSomeone ? "tone-attention wrap" : "wrap" },
      icon(needsSomeone ? "warning" : "clock"),
      timed(Title || Message),
    ),
    Hopeless && !none
      ? h("p", { class: "message" }, "No node that has joined can ever take it, not even an empty one.")
      : null,
    h(
      "p",
      { class: "facts" },
      h("span", null, "waiting since ", timeAgo(waiting.Since)),
      slots,
      Hopeless ? null : h("span", null, ahead(waiting)),
      waiting.ReservedNode
        ? h("span", null, "node ", nodeLink(waiting.ReservedNode), " is kept free for it")
        : null,
      copyLines(
        "why this job waits",
        () => curl("GET", path(["jobs", explanation.JobID, "explain"])),
        () => jobctl(["explain", explanation.JobID]),
      ),
    ),
    none
      ? joinCommands()
      : byReason(Groups, Nodes.filter(({ Chosen }) => Chosen).map(({ NodeID }) => NodeID)),
  );
}

/** What a gate holds back, and until when. @param {Explanation} explanation @param {Explanation["Gates"][number]} gate */
function heldBack({ Executions }, gate) {
  return h(
    "section",
    { class: "panel waiting", "aria-label": "What holds executions back" },
    h("h2", { class: "wrap" }, icon("clock"), gate.Message),
    h(
      "p",
      { class: "facts" },
      h("span", null, `${plural(gate.Slots, "execution")} of ${count(Executions.Total)} held back`),
      h("span", null, "since ", timeAgo(gate.Since)),
    ),
  );
}

/** @param {NonNullable<Explanation["Waiting"]>} waiting */
function ahead(waiting) {
  if (waiting.AheadIsMore) return `more than ${count(waiting.Ahead)} jobs are ahead`;
  if (waiting.Ahead === 0) return "no job is ahead";
  return waiting.Ahead === 1 ? "1 job is ahead" : `${count(waiting.Ahead)} jobs are ahead`;
}

/** Nodes that were chosen, and the others in groups of one reason each. @param {ReasonGroup[]} groups @param {string[]} chosen */
export function byReason(groups, chosen) {
  const row = (
    /** @type {boolean} */ takes,
    /** @type {string} */ text,
    /** @type {string[]} */ ids,
    /** @type {number} */ nodes,
  ) =>
    h(
      "tr",
      { class: "flat" },
      h("td", { class: `fit ${takes ? "tone-completed" : ""}` }, icon(takes ? "check" : "minus")),
      h("td", { class: "wrap" }, timed(text)),
      h("td", { class: "wrap" }, names(ids, nodes)),
    );
  const takers = chosen.slice(0, NAMED);
  return h(
    "table",
    { "aria-label": "Nodes by reason", class: "plain" },
    h(
      "tbody",
      null,
      chosen.length
        ? row(true, `${plural(chosen.length, "node")} can take it now`, takers, chosen.length)
        : null,
      groups.filter(({ Nodes }) => Nodes > 0).map(({ Nodes, Message, NodeIDs }) =>
        row(false, Message, NodeIDs, Nodes)
      ),
    ),
  );
}

/** @param {string[]} ids @param {number} all */
function names(ids, all) {
  const links = ids.flatMap((id, at) => [at ? ", " : "", nodeLink(id)]);
  return [...links, all > ids.length ? ` and ${count(all - ids.length)} more` : null];
}

/** @param {Explanation["Failures"]} failures */
function failed(failures) {
  const number = failures.length >= 100 ? "100 or more failures" : plural(failures.length, "failure");
  return h(
    "section",
    { class: "panel failed", "aria-label": "What has failed so far" },
    h("h2", { class: "tone-failed" }, icon("cross"), `${number} so far`),
    h(
      "ul",
      { class: "plain-list" },
      equal(failures).slice(0, FAILURES).map(({ failure, times, first, nodes }) =>
        h(
          "li",
          null,
          h(
            "a",
            { class: "wrap", href: `/executions/${failure.ExecutionID}`, title: failure.ExecutionID },
            failure.Reason || executionLook(failure.State).word,
          ),
          " on ",
          nodes.slice(0, 3).flatMap((id, at) => [at ? ", " : "", nodeLink(id)]),
          nodes.length > 3 ? ` and ${count(nodes.length - 3)} more` : "",
          times > 1 ? [`, ${count(times)} times, first `, timeAgo(first), ", last "] : ", ",
          timeAgo(failure.Time),
        )
      ),
    ),
  );
}

/** Equal failures as one, the latest first. @param {Explanation["Failures"]} failures */
function equal(failures) {
  /** @type {Map<string, { failure: Explanation["Failures"][number], times: number, first: string, nodes: string[] }>} */
  const found = new Map();
  for (const failure of failures) {
    const group = found.get(failure.Reason) ?? { failure, times: 0, first: "", nodes: [] };
    group.times += 1;
    group.first = failure.Time;
    if (!group.nodes.includes(failure.NodeID)) group.nodes.push(failure.NodeID);
    found.set(failure.Reason, group);
  }
  return [...found.values()];
}
