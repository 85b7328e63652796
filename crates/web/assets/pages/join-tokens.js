// Join tokens: with what new nodes join; the list, creating one, and revoking one.

import { change, get, path } from "../api.js";
import { createJoinToken } from "../access/join-token.js";
import { accessPage, fromTimeToTime } from "../access/tabs.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { actionsHead, fill, h, reconcile, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines, idText } from "../elements/copy.js";
import { bytes, cores, plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { agentCommands } from "../join.js";
import { empty, failure, inOneLine, loading, needsRole } from "../notes.js";
import { notify } from "../notice.js";
import { session } from "../session.js";

/** @import { NodeToken, Shown, Visit } from "../../types.d.ts" */

const PATH = "/access/join-tokens";
const TITLE = "Join tokens";

/** @param {Visit} visit @returns {Shown} */
export default function joinTokens({ signal }) {
  if (!session.may("operate")) {
    return { title: TITLE, element: accessPage(PATH, needsRole("Join tokens need", "operator")) };
  }
  const body = h("div", { class: "manages" }, loading());
  const rows = h("tbody");
  const table = h("table", { "aria-label": TITLE }, head(), rows);
  const none = empty(
    "No join token",
    h("p", null, "A join token lets one node, or as many as it says, join this orchestrator."),
  );
  const refresh = keepFresh({
    signal,
    // A node that joins uses one.
    cares: (change) => change.nodes.size > 0,
    load: (signal) => get(path(["nodes", "tokens"]), signal),
    show: ({ NodeTokens }) => {
      table.hidden = !NodeTokens.length;
      none.hidden = NodeTokens.length > 0;
      reconcile(rows, NodeTokens, (token) => token.ID, (token, before) => tokenRow(token, before, refresh));
      if (!section.isConnected) fill(body, section);
    },
    fail: (error) => fill(body, failure(error, refresh)),
  });
  // Over plain HTTP the service makes none, because a node needs none.
  const encrypted = location.protocol === "https:";
  const section = h(
    "section",
    { class: "section" },
    h(
      "header",
      { class: "tall" },
      h("h2", null, TITLE),
      h(
        "div",
        { class: "actions end" },
        copyLines(
          "the list of join tokens",
          () => curl("GET", path(["nodes", "tokens"])),
          () => jobctl(["node", "token", "list"]),
        ),
        encrypted
          ? h("button", {
            type: "button",
            class: "primary",
            onclick: () => void createJoinToken(refresh),
          }, "Create a join token…")
          : null,
      ),
    ),
    table,
    none,
    encrypted ? null : h(
      "div",
      { class: "padded" },
      h("p", null, "Over plain HTTP a node joins without a token:"),
      agentCommands(""),
    ),
  );
  fromTimeToTime(signal, refresh);
  return { title: TITLE, element: accessPage(PATH, body) };
}

function head() {
  return tableHead(
    ["", "Join token"],
    ["mid fit", "For"],
    ["mid", "At most"],
    ["mid number", "Left"],
    ["wide number", "Created"],
    ["mid number", "Expires"],
    actionsHead(),
  );
}

/** @param {NodeToken} token @param {HTMLElement | undefined} before @param {() => void} refresh */
function tokenRow(token, before, refresh) {
  const version = JSON.stringify(token);
  if (before?.dataset.version === version) return before;
  const labels = Object.entries(token.Labels);
  const left = token.UsesLeft ? plural(token.UsesLeft, "use") : "used up";
  const known = () => token.NodeID ? idText(token.NodeID, `/nodes/${token.NodeID}`) : "new nodes";
  return h(
    "tr",
    { class: token.UsesLeft ? "" : "gone", data: { version } },
    h(
      "td",
      null,
      idText(token.ID),
      labels.length
        ? h(
          "span",
          { class: "labels" },
          labels.map(([key, value]) => h("span", { class: "label" }, value ? `${key}=${value}` : key)),
        )
        : null,
      h(
        "p",
        { class: "narrow row-facts small muted" },
        h("span", null, "for ", known()),
        h("span", null, token.UsesLeft ? `${left} left` : left),
        h("span", null, "expires ", timeAgo(token.ExpireTime)),
      ),
    ),
    h("td", { class: "mid fit" }, known()),
    h("td", { class: "mid wrap" }, mostText(token)),
    h("td", { class: "mid number" }, left),
    h("td", { class: "wide number muted" }, timeAgo(token.CreateTime)),
    h("td", { class: "mid number" }, timeAgo(token.ExpireTime)),
    h(
      "td",
      { class: "fit" },
      h("button", {
        type: "button",
        class: "danger",
        "aria-label": `Revoke ${token.ID}…`,
        onclick: () => void revoke(token, refresh),
      }, "Revoke…"),
    ),
  );
}

/** @param {NodeToken} token */
function mostText({ MaxCapacity: most }) {
  if (!most) return "–";
  return [
    most.CPU ? `${cores(most.CPU)} CPU` : "",
    most.Memory ? `${bytes(most.Memory)} memory` : "",
    most.Disk ? `${bytes(most.Disk)} disk` : "",
    most.GPU ? `${most.GPU} GPU` : "",
  ].filter(Boolean).join(", ");
}

/** @param {NodeToken} token @param {() => void} refresh */
async function revoke({ ID }, refresh) {
  const answer = await ask({
    title: "Revoke a join token?",
    body: [
      h("p", null, "Join token ", h("strong", { class: "id" }, ID)),
      h("p", { class: "muted" }, "No node joins with it any more. Nodes that have joined stay."),
    ],
    confirm: "Revoke the join token",
    danger: true,
    copies: {
      curl: () => curl("DELETE", path(["nodes", "tokens", ID])),
      jobctl: () => jobctl(["node", "token", "revoke", ID]),
    },
  });
  if (!answer) return;
  try {
    await change("DELETE", path(["nodes", "tokens", ID]));
    notify(`Join token ${ID} is revoked`);
  } catch (error) {
    notify(`Join token ${ID} was not revoked: ${inOneLine(error)}`, "failed");
  }
  refresh();
}
