// The secrets that tasks may name: the list without values; for owners also setting and deleting one.

import { change, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { h } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { notify } from "../notice.js";
import { field, formDialog } from "./form-dialog.js";
import { namedTable, nameFields, secretInput } from "./named.js";
import { ENCODED, shellBody, withSecret } from "./lines.js";

/** @import { Secret } from "../../types.d.ts" */

/** @param {() => void} refresh */
export function secretTable(refresh) {
  return namedTable({
    title: "Secrets",
    list: "secrets",
    word: "secret",
    one: "the secret",
    none: h(
      "p",
      null,
      "A secret is a value that a task names and that its job does not contain, such as a password. ",
      "The task finds it in a file or in a variable.",
    ),
    set: (secret) => void putSecret(secret, [secret.Namespace], refresh),
    refresh,
  });
}

/** Creates a secret, or gives it another value. @param {Secret | null} before @param {string[]} namespaces @param {() => void} refresh */
export async function putSecret(before, namespaces, refresh) {
  const named = nameFields(before, namespaces, "db-password");
  const value = secretInput();
  const url = () => path(["secrets", named.name()], { namespace: named.namespace() });
  await formDialog({
    title: before ? `Another value for ${before.Name}` : "Set a secret",
    body: [
      ...named.fields,
      field("Value", "Value", value, "Taken as it is. Tasks receive it; it cannot be read here again."),
    ],
    copies: copyLines(
      "setting the secret",
      () => curl("PUT", url(), { shell: shellBody((Data) => ({ Data }), ENCODED) }),
      () => withSecret(jobctl(["secret", "set", named.name(), "--namespace", named.namespace()])),
    ),
    confirm: "Set",
    send: async () => {
      await change("PUT", url(), { Value: value.value });
      notify(`Secret ${named.name()} is set`);
      refresh();
      return null;
    },
  });
}
