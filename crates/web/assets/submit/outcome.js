// What the dry run says: problems, warnings, the nodes that would be chosen, and the differences from the original.

import { h } from "../dom.js";
import { plural } from "../format.js";
import { icon } from "../icons.js";
import { byReason } from "../job/waiting.js";
import { joinCommands } from "../join.js";
import { diff, hunks } from "./diff.js";

/** @import { Json, NodeVerdict, ReasonGroup } from "../../types.d.ts" */

const AROUND = 3;

/** @param {{ Nodes: NodeVerdict[], Groups: ReasonGroup[], Hopeless: boolean }} answer */
export function chosenNodes(answer) {
  const nodes = answer.Nodes;
  const chosen = nodes.filter((node) => node.Chosen);
  if (!nodes.length) {
    return h(
      "section",
      { class: "panel attention" },
      h("h2", { class: "tone-attention" }, icon("warning"), "No node has joined"),
      h("p", { class: "message" }, "The job can be submitted and waits until a node joins:"),
      joinCommands(),
    );
  }
  return h(
    "section",
    { class: "panel" },
    h(
      "h2",
      { class: chosen.length ? "tone-completed" : "tone-attention" },
      icon(chosen.length ? "check" : "clock"),
      chosen.length
        ? `Would start now on ${plural(chosen.length, "node")}`
        : answer.Hopeless
        ? "Would wait: no node that has joined can ever take it"
        : "Would wait: no node can take it now",
    ),
    byReason(answer.Groups, chosen.map(({ NodeID }) => NodeID)),
  );
}

/** @param {string[]} warnings */
export function warningList(warnings) {
  if (!warnings.length) return null;
  return h(
    "section",
    { class: "panel attention" },
    h("h2", { class: "tone-attention" }, icon("warning"), plural(warnings.length, "warning")),
    h("ul", { class: "plain-list" }, warnings.map((text) => h("li", { class: "wrap" }, text))),
  );
}

/** Each leads to its field of the form, or to its line of the text. @param {{ Path?: string, Reason: string, where?: string, goTo?: () => void }[]} problems */
export function problemList(problems) {
  return h(
    "section",
    { class: "panel failed", role: "status" },
    h("h2", { class: "tone-failed" }, icon("cross"), plural(problems.length, "problem")),
    h(
      "ul",
      { class: "plain-list" },
      problems.map((problem) =>
        h(
          "li",
          { class: "wrap" },
          problem.where
            ? h("button", { type: "button", class: "line-link", onclick: problem.goTo }, problem.where)
            : null,
          problem.where ? " " : null,
          problem.Path ? h("code", null, problem.Path) : null,
          problem.Path ? " " : null,
          problem.Reason,
        )
      ),
    ),
  );
}

/** @param {Json} before @param {Json} after */
export function differences(before, after) {
  const lines = hunks(diff(JSON.stringify(before, null, 2), JSON.stringify(after, null, 2)), AROUND);
  const changed = lines.filter((line) => line && line.kind !== "same").length;
  return h(
    "section",
    { class: "section" },
    h("header", null, h("h2", null, "Differences from the original")),
    changed
      ? h(
        "pre",
        { class: "code diff", tabindex: 0, "aria-label": "Differences" },
        lines.map((line) =>
          line
            ? h(
              "span",
              { class: line.kind },
              `${{ same: " ", added: "+", removed: "-" }[line.kind]} ${line.text}`,
            )
            : h("span", { class: "muted" }, "  …")
        ),
      )
      : h("p", { class: "quiet-note" }, "None: this submits the same job once more."),
  );
}
