// The orchestrators that share the service's store, where there are several.

import { get, path } from "./api.js";
import { curl, jobctl } from "./commands.js";
import { timeAgo } from "./elements/clock.js";
import { copyButton, copyLines } from "./elements/copy.js";
import { fill, h, tableHead } from "./dom.js";
import { keepFresh } from "./fresh.js";
import { badge, memberLook } from "./state.js";

/** @import { Member, Members } from "../types.d.ts" */

// No change of the cluster says that an orchestrator came or went.
const PERIOD_MS = 10_000;

/** @param {HTMLElement} box @param {AbortSignal} signal */
export function showMembers(box, signal) {
  const url = path(["cluster", "members"], {});
  let timer = 0;
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) => get(url, signal),
    show: (/** @type {Members} */ { Store, Members }) => {
      fill(box, Members.length > 1 ? table(url, Members) : null);
      // Only a database can be shared.
      if (Store.Kind !== "sqlite") timer ||= setInterval(() => document.hidden || refresh(), PERIOD_MS);
    },
    // The nodes are what the page is for.
    fail: () => fill(box),
  });
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** @param {string} url @param {Member[]} members */
function table(url, members) {
  return h(
    "section",
    { class: "section" },
    h(
      "header",
      null,
      h("h2", null, "Orchestrators"),
      copyLines("this list", () => curl("GET", url), () => jobctl(["cluster", "members"])),
    ),
    h(
      "table",
      { "aria-label": "Orchestrators" },
      tableHead(["fit", "State"], ["", "Address"], ["mid", "Release"], ["mid number", "Seen"]),
      h("tbody", null, members.map(row)),
    ),
  );
}

/** @param {Member} member */
function row(member) {
  const { ID: id, DifferentSettings: differing } = member;
  return h(
    "tr",
    null,
    h("td", { class: "fit" }, badge(memberLook(member))),
    h(
      "td",
      { class: "wrap" },
      h("span", { class: "main", title: id }, member.Address),
      " ",
      copyButton(() => id, `Copy ${id}`),
      differing.length
        ? h("p", { class: "reason small" }, `its settings differ from the leader's: ${differing.join(", ")}`)
        : null,
    ),
    h("td", { class: "mid muted" }, member.Release),
    h("td", { class: "mid number muted" }, timeAgo(member.LastSeen)),
  );
}
