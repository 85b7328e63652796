// Secrets and credentials of the namespaces that the reader sees: what jobs name and do not contain.

import { get, path } from "../api.js";
import { credentialTable, putCredential } from "../access/credentials.js";
import { putSecret, secretTable } from "../access/secrets.js";
import { accessPage, fromTimeToTime } from "../access/tabs.js";
import { curl, jobctl } from "../commands.js";
import { fill, h } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { keepFresh } from "../fresh.js";
import { failure, loading, needsRole } from "../notes.js";
import { session } from "../session.js";

/** @import { Namespace, Shown, Visit } from "../../types.d.ts" */

const PATH = "/access/secrets";
const TITLE = "Secrets";

// Those of all namespaces that the role reads.
const EVERYWHERE = { namespace: "*" };

/** @param {Visit} visit @returns {Shown} */
export default function secrets({ signal }) {
  if (!session.may("secrets")) {
    return { title: TITLE, element: accessPage(PATH, needsRole("Secrets need", "submitter")) };
  }
  const body = h("div", null, loading());
  /** @type {string[]} those whose secrets the reader may set */
  let own = [];
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) =>
      Promise.all([
        get(path(["secrets"], EVERYWHERE), signal),
        get(path(["credentials"], EVERYWHERE), signal),
        get(path(["namespaces"]), signal),
      ]),
    show: ([{ Secrets }, { Credentials }, { Namespaces }]) => {
      const names = /** @type {Namespace[]} */ (Namespaces).map(({ Name }) => Name);
      own = names.filter((name) => session.may("setSecrets", name));
      secrets.show(Secrets);
      credentials.show(Credentials);
      if (!content.isConnected) fill(body, content);
    },
    fail: (error) => fill(body, failure(error, refresh)),
  });
  const secrets = secretTable(refresh);
  const credentials = credentialTable(refresh);
  const content = h(
    "div",
    { class: "manages" },
    section("Secrets", "secret", secrets.element, () => void putSecret(null, own, refresh)),
    section("Credentials", "credential", credentials.element, () => void putCredential(null, own, refresh)),
  );
  fromTimeToTime(signal, refresh);
  return { title: TITLE, element: accessPage(PATH, body) };
}

/** @param {string} title @param {string} word for jobctl @param {HTMLElement} body @param {() => void} set */
function section(title, word, body, set) {
  const list = title.toLowerCase();
  return h(
    "section",
    { class: "section" },
    h(
      "header",
      { class: "tall" },
      h("h2", null, title),
      h(
        "div",
        { class: "actions end" },
        copyLines(
          `the list of ${list}`,
          () => curl("GET", path([list], EVERYWHERE)),
          () => jobctl([word, "list", "--namespace", "*"]),
        ),
        session.may("setSecrets")
          ? h(
            "button",
            { type: "button", class: "primary", onclick: set },
            `Set ${word === "secret" ? "a secret" : list}…`,
          )
          : null,
      ),
    ),
    body,
  );
}
