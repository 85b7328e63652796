// Concurrency groups of the namespaces that the reader sees.

import { get, path } from "../api.js";
import { groupTable, putGroup } from "../access/groups.js";
import { accessPage, fromTimeToTime } from "../access/tabs.js";
import { curl, jobctl } from "../commands.js";
import { fill, h } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { keepFresh } from "../fresh.js";
import { failure, loading } from "../notes.js";
import { session } from "../session.js";

/** @import { Namespace, Shown, Visit } from "../../types.d.ts" */

const PATH = "/access/groups";
const TITLE = "Concurrency groups";

// Those of all namespaces that the role reads.
const EVERYWHERE = { namespace: "*" };

/** @param {Visit} visit @returns {Shown} */
export default function groups({ signal }) {
  const body = h("div", null, loading());
  /** @type {string[]} those whose groups the reader may set */
  let own = [];
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) =>
      Promise.all([get(path(["groups"], EVERYWHERE), signal), get(path(["namespaces"]), signal)]),
    show: ([{ Groups }, { Namespaces }]) => {
      const names = /** @type {Namespace[]} */ (Namespaces).map(({ Name }) => Name);
      own = names.filter((name) => session.may("setSecrets", name));
      table.show(Groups);
      if (!content.isConnected) fill(body, content);
    },
    fail: (error) => fill(body, failure(error, refresh)),
  });
  const table = groupTable(refresh);
  const content = h(
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
          "the list of groups",
          () => curl("GET", path(["groups"], EVERYWHERE)),
          () => jobctl(["group", "list", "--namespace", "*"]),
        ),
        session.may("setSecrets")
          ? h(
            "button",
            { type: "button", class: "primary", onclick: () => void putGroup(null, own, refresh) },
            "Create a group…",
          )
          : null,
      ),
    ),
    table.element,
  );
  fromTimeToTime(signal, refresh);
  return { title: TITLE, element: accessPage(PATH, body) };
}
