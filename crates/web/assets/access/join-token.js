// Creating a join token, which is shown once with the commands that start an agent with it.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { h } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { agentCommands } from "../join.js";
import { command } from "../notes.js";
import { field, formDialog } from "./form-dialog.js";
import { BOUNDS, joinTokenArguments, labelsOf } from "./lines.js";

const HOUR = 3600;

/** @type {[number, string][]} */
const LIVES = [
  [HOUR, "in an hour"],
  [24 * HOUR, "in a day"],
  [7 * 24 * HOUR, "in 7 days"],
  [30 * 24 * HOUR, "in 30 days"],
];

/** @param {() => void} refresh */
export async function createJoinToken(refresh) {
  const life = h("select", null, LIVES.map(([seconds, word]) => h("option", { value: seconds }, word)));
  const uses = h("input", { type: "number", min: 1, max: 100_000, value: 1 });
  const labels = h("textarea", { rows: 2, spellcheck: "false", placeholder: "zone=a" });
  const node = h("input", { type: "text", class: "mono", autocomplete: "off", spellcheck: "false" });
  const bounds = BOUNDS.map(({ name, unit, step }) => ({
    name,
    input: h("input", {
      type: "number",
      min: 0,
      step,
      placeholder: "no bound",
      "aria-label": unit ? `${name}, in ${unit}` : name,
    }),
    unit,
  }));
  const asked = () => ({
    TTLSeconds: Number(life.value),
    Uses: Number(uses.value),
    Labels: labelsOf(labels.value),
    NodeID: node.value.trim(),
    Bounds: Object.fromEntries(bounds.map(({ name, input }) => [name, Number(input.value)])),
  });
  const body = () => {
    const { TTLSeconds, Uses, Labels, NodeID, Bounds } = asked();
    const capacity = Object.fromEntries(
      BOUNDS.map(({ name, size }) => [name, size === 1 ? Bounds[name] : Math.round(Bounds[name] * size)]),
    );
    return {
      ...{ TTLSeconds, Uses, Labels },
      ...(NodeID ? { NodeID } : {}),
      ...(Object.values(Bounds).some(Boolean) ? { MaxCapacity: capacity } : {}),
    };
  };
  await formDialog({
    title: "Create a join token",
    body: [
      field("TTLSeconds", "Expires", life),
      field("Uses", "Nodes that may join with it", uses),
      field("Labels", "Labels of these nodes", labels, "One on each line; the nodes cannot change them"),
      field("NodeID", "Only for this known node", node, "Its whole ID; its old key is refused from then on"),
      h(
        "fieldset",
        { class: "field", data: { path: "MaxCapacity" } },
        h("legend", null, "What such a node may offer at most"),
        h(
          "div",
          { class: "bounds" },
          bounds.map(({ name, input, unit }) =>
            h("label", null, h("span", null, unit ? `${name}, ${unit}` : name), input)
          ),
        ),
        h("p", { class: "problem-text small tone-failed", hidden: true }),
      ),
    ],
    copies: copyLines(
      "creating the join token",
      () => curl("POST", path(["nodes", "tokens"]), { body: body() }),
      () => jobctl(joinTokenArguments(asked())),
    ),
    confirm: "Create",
    send: async () => {
      const { Secret } = await change("POST", path(["nodes", "tokens"]), body());
      refresh();
      return secret(Secret);
    },
  });
}

/** @param {string} text */
function secret(text) {
  return [
    h("h2", { id: "dialog-title" }, "The join token"),
    h(
      "p",
      null,
      h("strong", null, "It is shown this once."),
      " The agent needs it only to join; then it has its own key and certificate.",
    ),
    command(text, "the token"),
    h("p", null, "Start an agent on the machine that joins:"),
    agentCommands(text),
    h(
      "p",
      { class: "muted" },
      "Or write it to the file that ",
      h("code", null, "join_token_file"),
      " names.",
    ),
  ];
}
