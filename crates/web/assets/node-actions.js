// What an operator can do with a node; each is asked for by the node's name.

import { path } from "./api.js";
import { curl, jobctl, option } from "./commands.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { nodeName, plural, short } from "./format.js";
import { inOneLine } from "./notes.js";
import { notify } from "./notice.js";
import { go } from "./router.js";

/** @import { NodeRecord } from "../types.d.ts" */

/** @typedef {(method: "PUT" | "DELETE", body: any, query?: Record<string, string | boolean>) => Promise<void>} Send */
/** @typedef {{ word: string, done: string, text: string, danger?: boolean }} Action */

/** @type {Record<string, Action>} */
const ACTIONS = {
  approve: { word: "Approve", done: "is approved", text: "It gets work from now on." },
  reject: {
    word: "Reject",
    done: "is rejected",
    text: "It gets no more work, and what runs there is given up and placed elsewhere. " +
      "Its key is refused from now on, and the join token that it came with is revoked.",
    danger: true,
  },
  cordon: { word: "Cordon", done: "is cordoned", text: "It gets no new work. What runs there goes on." },
  uncordon: { word: "Uncordon", done: "takes work again", text: "It gets new work again." },
  drain: {
    word: "Drain",
    done: "is draining",
    text: "It gets no new work, and what runs there moves to other nodes.",
  },
};

/** @param {NodeRecord} node @returns {string[]} */
function possible(node) {
  if (node.Membership === "PENDING") return ["approve", "reject"];
  if (node.Membership === "REJECTED") return ["approve"];
  return node.Eligibility === "ELIGIBLE"
    ? ["cordon", "drain", "reject"]
    : node.Eligibility === "CORDONED"
    ? ["uncordon", "drain", "reject"]
    : ["uncordon", "reject"];
}

/**
 * Asks, and acts.
 * @param {string} action @param {NodeRecord} node @param {number} running @param {Send} send
 */
export async function actOnNode(action, node, running, send) {
  const name = nodeName(node);
  const { word, done, text, danger } = ACTIONS[action];
  const answer = await ask({
    title: `${word} ${name}?`,
    body: [
      named(node),
      h(
        "p",
        { class: "muted" },
        text,
        running && action !== "uncordon"
          ? ` ${plural(running, "execution")} ${running === 1 ? "is" : "are"} there now.`
          : "",
      ),
    ],
    reason: "Message, for the history",
    confirm: `${word} the node`,
    danger,
    copies: {
      curl: (Message) => curl("PUT", urlOf(node), { body: { Action: action, Message } }),
      jobctl: (message) => jobctl(["node", action, node.PeerInfo.ID, ...option("--message", message)]),
    },
  });
  if (!answer) return;
  await attempt(
    send("PUT", { Action: action, Message: answer.reason }),
    `${name} ${done}`,
    `${name}: ${word.toLowerCase()} failed`,
  );
}

/** @param {NodeRecord} node */
function named(node) {
  return h(
    "p",
    null,
    h("strong", null, nodeName(node)),
    " ",
    h("span", { class: "id" }, short(node.PeerInfo.ID)),
  );
}

/** @param {NodeRecord} node @param {Record<string, boolean>} [query] */
function urlOf(node, query = {}) {
  return path(["nodes", node.PeerInfo.ID], query);
}

/** @param {NodeRecord} node @param {number} running @param {Send} send */
export function nodeActions(node, running, send) {
  const name = nodeName(node);
  const forget = async () => {
    /** @type {Record<string, boolean>} */
    const now = running ? { now: true } : {};
    const answer = await ask({
      title: `Forget ${name}?`,
      body: [
        named(node),
        h("p", { class: "muted" }, forgetText(running)),
      ],
      confirm: "Forget the node",
      danger: true,
      copies: {
        curl: () => curl("DELETE", urlOf(node, now)),
        jobctl: () => jobctl(["node", "delete", node.PeerInfo.ID, ...(running ? ["--now"] : [])]),
      },
    });
    if (
      answer &&
      await attempt(
        send("DELETE", undefined, now),
        `${name} is forgotten`,
        `${name} was not forgotten`,
      )
    ) go("/nodes");
  };
  return h(
    "div",
    { class: "actions" },
    possible(node).map((action) =>
      h("button", {
        type: "button",
        class: ACTIONS[action].danger ? "danger" : action === "approve" ? "primary" : "",
        onclick: () => void actOnNode(action, node, running, send),
      }, `${ACTIONS[action].word}…`)
    ),
    node.Connection !== "CONNECTED"
      ? h("button", { type: "button", class: "danger", onclick: () => void forget() }, "Forget…")
      : null,
  );
}

/** @param {number} running */
function forgetText(running) {
  if (!running) return "Its record is removed. It appears again if its agent joins again.";
  const executions = `${plural(running, "execution")} ${running === 1 ? "is" : "are"}`;
  return `Its record is removed, and its ${executions} given up immediately and placed elsewhere. If the machine still runs them, they run twice until it is back.`;
}

/** @param {Promise<void>} work @param {string} done @param {string} failed */
async function attempt(work, done, failed) {
  try {
    await work;
    notify(done);
    return true;
  } catch (error) {
    notify(`${failed}: ${inOneLine(error)}`, "failed");
    return false;
  }
}
