// What a page does, as lines for a terminal: of curl, and of jobctl.

import { quoted } from "./format.js";
import { session } from "./session.js";

/** @import { Json } from "../types.d.ts" */

/**
 * Where a token is asked for, the line takes it from a variable: the browser itself does not know it.
 * @param {string} method @param {string} url a path of the API with its query, as `path` of api.js makes it
 * @param {{ body?: Json, shell?: string, flags?: string[], origin?: string }} [more] `shell` is a body that
 *   a shell makes, quoted already
 */
export function curl(method, url, { body, shell, flags = [], origin = location.origin } = {}) {
  const data = body === undefined ? shell : quoted(JSON.stringify(body));
  return [
    "curl -sS --fail-with-body",
    ...flags.map(quoted),
    method === "GET" ? "" : `-X ${method}`,
    quoted(`${origin}${url}`),
    session.who.TokenID ? '-H "Authorization: Bearer $TOKEN"' : "",
    data === undefined ? "" : `-H 'Content-Type: application/json' -d ${data}`,
  ].filter(Boolean).join(" ");
}

/** @param {string[]} words @param {string} [origin] */
export function jobctl(words, origin = location.origin) {
  return ["jobctl", "--url", origin, ...words].map(quoted).join(" ");
}

/** An option of jobctl, unless there is nothing to say. @param {string} name @param {string | number} value */
export function option(name, value) {
  const text = String(value);
  if (!text) return [];
  return text.startsWith("-") ? [`${name}=${text}`] : [name, text];
}
