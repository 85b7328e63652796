// The tokens that the reader manages: the list, creating one, and revoking one.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { ask } from "../dialog.js";
import { actionsHead, h, reconcile, say, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines, idText } from "../elements/copy.js";
import { plural } from "../format.js";
import { command, empty, inOneLine } from "../notes.js";
import { notify } from "../notice.js";
import { session } from "../session.js";
import { millis } from "../time.js";
import { field, formDialog, tick, ticked, ticks } from "./form-dialog.js";
import { isOfTheCluster, tokenArguments } from "./lines.js";

/** @import { Namespace, Token } from "../../types.d.ts" */

const MOST_ROWS = 500;
const DAY = 86_400;

/** @type {Record<string, string>} */
const ROLES = {
  viewer: "Sees what runs, but neither specifications nor output",
  submitter: "Also sees all of a job, submits, stops, and reads logs and results",
  owner: "Also creates and revokes tokens of its namespaces",
  monitor: "Scrapes metrics, and nothing else; the only tokens that agents accept",
  operator: "Manages nodes, and is a viewer of every namespace",
  admin: "May do everything",
};

/** @type {[number, string][]} */
const LIVES = [
  [DAY, "in a day"],
  [7 * DAY, "in 7 days"],
  [30 * DAY, "in 30 days"],
  [90 * DAY, "in 90 days"],
  [365 * DAY, "in a year"],
  [0, "never"],
];

/** @param {() => void} refresh */
export function tokenTable(refresh) {
  const body = h("tbody");
  const table = h(
    "table",
    { "aria-label": "Tokens" },
    tableHead(
      ["", "Token"],
      ["mid", "Role"],
      ["mid", "Namespaces"],
      ["wide", "Created by"],
      ["mid number", "Expires"],
      ["mid number", "Last used"],
      actionsHead(),
    ),
    body,
  );
  const more = h("p", { class: "quiet-note" }, `The newest ${MOST_ROWS}; jobctl token list shows all.`);
  const none = empty(
    "No token yet",
    h("p", null, "A token lets a person or a program in, with a role in some namespaces."),
  );
  return {
    element: h("div", null, table, more, none),
    show: (/** @type {Token[]} */ tokens) => {
      const rows = [...tokens].sort((a, b) => millis(b.CreateTime) - millis(a.CreateTime));
      table.hidden = !rows.length;
      none.hidden = rows.length > 0;
      more.hidden = rows.length <= MOST_ROWS;
      reconcile(
        body,
        rows.slice(0, MOST_ROWS),
        (token) => token.ID,
        (token, before) => tokenRow(token, before, refresh),
      );
    },
  };
}

/** @param {Token} token @param {HTMLElement | undefined} before @param {() => void} refresh */
function tokenRow(token, before, refresh) {
  const end = millis(token.ExpireTime);
  const isOver = end !== 0 && end <= Date.now();
  const version = `${JSON.stringify(token)} ${isOver}`;
  if (before?.dataset.version === version) return before;
  const names = isOfTheCluster(token.Role) ? "the whole cluster" : token.Namespaces.map(shownName).join(", ");
  const expires = () => isOver ? "expired" : end ? timeAgo(token.ExpireTime) : "never";
  const used = () => token.LastUseTime ? timeAgo(token.LastUseTime) : "never";
  return h(
    "tr",
    { class: isOver ? "gone" : "", data: { version } },
    h(
      "td",
      null,
      h("strong", { class: "wrap" }, token.Name),
      " ",
      idText(token.ID),
      token.ID === session.who.TokenID ? h("span", { class: "label" }, "you") : null,
      h(
        "p",
        { class: "narrow row-facts small muted" },
        h("span", { class: "wrap" }, `${token.Role}, ${names}`),
        h("span", null, isOver ? "" : "expires ", expires()),
        h("span", null, "used ", used()),
      ),
    ),
    h("td", { class: "mid" }, token.Role),
    h("td", { class: "mid wrap" }, names),
    h("td", { class: "wide wrap" }, token.CreatedBy || "–"),
    h("td", { class: "mid number" }, expires()),
    h("td", { class: "mid number muted" }, used()),
    h(
      "td",
      { class: "fit" },
      h("button", {
        type: "button",
        class: "danger",
        "aria-label": `Revoke ${token.Name}…`,
        onclick: () => void revoke(token, refresh),
      }, "Revoke…"),
    ),
  );
}

/** @param {string} name */
function shownName(name) {
  return name === "*" ? "all" : name;
}

/** @param {Token} token @param {() => void} refresh */
async function revoke(token, refresh) {
  const own = token.ID === session.who.TokenID;
  const answer = await ask({
    title: `Revoke ${token.Name}?`,
    body: [
      h("p", null, h("strong", null, token.Name), " ", h("span", { class: "id" }, token.ID)),
      h(
        "p",
        { class: "muted" },
        own
          ? "You are signed in with it: this browser and everything else that uses it is signed out."
          : "It is refused from now on, and what it has open ends within a second. Jobs that it submitted go on.",
      ),
    ],
    confirm: "Revoke the token",
    danger: true,
    copies: {
      curl: () => curl("DELETE", path(["tokens", token.ID])),
      jobctl: () => jobctl(["token", "revoke", token.ID]),
    },
  });
  if (!answer) return;
  try {
    const { Descendants } = await change("DELETE", path(["tokens", token.ID]));
    const made = Descendants?.length ?? 0;
    notify(`${token.Name} is revoked${made ? `; ${plural(made, "token")} that it made stay valid` : ""}`);
  } catch (error) {
    notify(`${token.Name} was not revoked: ${inOneLine(error)}`, "failed");
  }
  refresh();
}

/** @param {Namespace[]} namespaces @param {() => void} refresh */
export async function createToken(namespaces, refresh) {
  const { who } = session;
  const isAdmin = who.Role === "admin";
  const name = h("input", {
    type: "text",
    maxlength: 100,
    autocomplete: "off",
    placeholder: "build server",
  });
  const role = h(
    "select",
    null,
    Object.keys(ROLES).filter((word) => isAdmin || !isOfTheCluster(word)).map((word) =>
      h("option", { selected: word === "submitter" }, word)
    ),
  );
  const meaning = h("small", { class: "muted", role: "status" });
  const life = h(
    "select",
    null,
    LIVES.map(([seconds, word]) => h("option", { value: seconds, selected: seconds === 30 * DAY }, word)),
  );
  const names = namespaces.map((namespace) => namespace.Name);
  const first = names.includes(session.home || "default") ? session.home || "default" : names[0];
  const all = isAdmin || who.Namespaces.includes("*") ? [tick("all namespaces", false, "*")] : [];
  const boxes = [...all, ...names.map((value) => tick(value, value === first))];
  const scope = ticks("Namespaces", "Namespaces", boxes);
  const everything = all[0]?.querySelector("input");
  const adapt = () => {
    say(meaning, ROLES[role.value]);
    scope.hidden = isOfTheCluster(role.value);
    for (const input of scope.querySelectorAll("input")) {
      input.disabled = input !== everything && everything?.checked === true;
    }
  };
  role.addEventListener("change", adapt);
  scope.addEventListener("change", adapt);
  adapt();
  const asked = () => ({
    Name: name.value.trim(),
    Role: role.value,
    Namespaces: scope.hidden ? [] : everything?.checked ? ["*"] : ticked(scope),
    TTLSeconds: Number(life.value),
  });
  await formDialog({
    title: "Create a token",
    body: [
      field("Name", "Name", name, "Whose it is, or what uses it"),
      field("Role", "Role", role, meaning),
      scope,
      field("TTLSeconds", "Expires", life),
    ],
    copies: copyLines(
      "creating the token",
      () => curl("POST", path(["tokens"]), { body: asked() }),
      () => jobctl(tokenArguments(asked())),
    ),
    confirm: "Create",
    send: async () => {
      const { Secret, Token } = await change("POST", path(["tokens"]), asked());
      refresh();
      return secret(Secret, Token);
    },
  });
}

/** @param {string} text @param {Token} token */
function secret(text, token) {
  return [
    h("h2", { id: "dialog-title" }, `The token of ${token.Name}`),
    h(
      "p",
      null,
      h("strong", null, "It is shown this once."),
      " The service keeps only a hash of it; if it is lost, create another.",
    ),
    command(text, "the token"),
    h(
      "p",
      { class: "muted" },
      "It signs in here, and on the command line with ",
      h("code", null, "jobctl login"),
      ".",
    ),
  ];
}
