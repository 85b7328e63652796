// The credentials that images, inputs and results may name: the list without logins; for owners also setting and deleting them.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { h, say } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { notify } from "../notice.js";
import { field, formDialog } from "./form-dialog.js";
import { namedTable, nameFields, secretInput } from "./named.js";
import { credentialArguments, credentialBody, shellBody, withSecret, words } from "./lines.js";

/** @import { Credential } from "../../types.d.ts" */

/** The types, what each opens, and the words for its login. @type {Record<string, { opens: string, user: string, secret: string }>} */
const TYPES = {
  registry: { opens: "private images", user: "User name", secret: "Password or token" },
  s3: {
    opens: "buckets, as inputs and for results",
    user: "ID of the access key",
    secret: "Secret access key",
  },
  git: { opens: "private repositories", user: "User name", secret: "Password or token" },
  http: {
    opens: "downloads; without a user name, by a bearer token",
    user: "User name",
    secret: "Password or token",
  },
};

/** @param {() => void} refresh */
export function credentialTable(refresh) {
  return namedTable({
    title: "Credentials",
    list: "credentials",
    word: "credential",
    one: "the credentials",
    none: h(
      "p",
      null,
      "Credentials open private images, buckets, repositories and servers for the jobs of a namespace. ",
      "Their login goes to the hosts that they list and to no other.",
    ),
    facts: (/** @type {Credential} */ { Type, Hosts, Buckets }) => [
      ["Type", Type],
      ["For", [...Hosts, ...Buckets.map((bucket) => `bucket ${bucket}`)].join(", ")],
    ],
    set: (/** @type {Credential} */ credential) =>
      void putCredential(credential, [credential.Namespace], refresh),
    refresh,
  });
}

/** Creates credentials, or replaces them. @param {Credential | null} before @param {string[]} namespaces @param {() => void} refresh */
export async function putCredential(before, namespaces, refresh) {
  const named = nameFields(before, namespaces, "ghcr");
  const type = h(
    "select",
    null,
    Object.keys(TYPES).map((word) => h("option", { selected: word === before?.Type }, word)),
  );
  const opens = h("small", { class: "muted", role: "status" });
  const lines = (/** @type {string[] | undefined} */ value, /** @type {string} */ placeholder) =>
    h("textarea", { rows: 2, spellcheck: "false", placeholder, prop: { value: value?.join("\n") ?? "" } });
  const hosts = lines(before?.Hosts, "ghcr.io");
  const buckets = lines(before?.Buckets, "all of these hosts");
  const user = h("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  const secret = secretInput();
  const userField = field("Login", "User name", user);
  const secretField = field("", "Password or token", secret, "It cannot be read here again.");
  const bucketField = field("Buckets", "Only these buckets", buckets, "One on each line");
  const adapt = () => {
    const words = TYPES[type.value];
    say(opens, `Opens ${words.opens}`);
    say(/** @type {HTMLElement} */ (userField.querySelector("label")), words.user);
    say(/** @type {HTMLElement} */ (secretField.querySelector("label")), words.secret);
    bucketField.hidden = type.value !== "s3";
  };
  type.addEventListener("change", adapt);
  adapt();
  const asked = () => ({
    Name: named.name(),
    Namespace: named.namespace(),
    Type: type.value,
    Hosts: words(hosts.value),
    Buckets: type.value === "s3" ? words(buckets.value) : [],
    User: user.value.trim(),
  });
  const url = () => path(["credentials", named.name()], { namespace: named.namespace() });
  await formDialog({
    title: before ? `Replace ${before.Name}` : "Set credentials",
    body: [
      ...named.fields,
      field("Type", "Type", type, opens),
      field("Hosts", "Hosts that get the login", hosts, "One on each line: HOST, HOST:PORT or *.DOMAIN"),
      bucketField,
      userField,
      secretField,
    ],
    copies: copyLines(
      "setting the credentials",
      () => curl("PUT", url(), { shell: shellBody((place) => credentialBody(asked(), place)) }),
      () => withSecret(jobctl(credentialArguments(asked()))),
    ),
    confirm: "Set",
    send: async () => {
      await change("PUT", url(), credentialBody(asked(), secret.value));
      notify(`Credentials ${named.name()} are set`);
      refresh();
      return null;
    },
  });
}
