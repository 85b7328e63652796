// What a page does, as lines for a terminal: of curl, and of jobctl.

import { ROOT } from "./api.js";
import { quoted } from "./format.js";
import { session } from "./session.js";

/** @import { Json } from "../types.d.ts" */

/**
 * Where a token is asked for, the line takes it from a variable: the browser itself does not know it.
 * @param {string} method @param {string} path below the root of the API @param {Json} [body] @param {string} [origin]
 */
export function curl(method, path, body, origin = location.origin) {
  return [
    "curl -sS --fail-with-body",
    method === "GET" ? "" : `-X ${method}`,
    quoted(`${origin}${ROOT}/${path}`),
    session.who.TokenID ? '-H "Authorization: Bearer $TOKEN"' : "",
    body === undefined ? "" : `-H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`,
  ].filter(Boolean).join(" ");
}

/** @param {string[]} words @param {string} [origin] */
export function jobctl(words, origin = location.origin) {
  return ["jobctl", "--url", origin, ...words].map(quoted).join(" ");
}
