// Requests to the API: one place for paths, time limits, errors and pages of lists.

import { connection } from "./connection.js";
import { session } from "./session.js";

/** @import { Json } from "../types.d.ts" */

export const ROOT = "/api/v1/orchestrator";

// Reads answer in milliseconds; the service itself gives up on its database after 10 s.
const TIMEOUT_MS = 20_000;

/** A refusal by the service, as its error envelope says it. */
export class ApiError extends Error {
  /** @param {number} status @param {Json} body */
  constructor(status, body) {
    super(body?.Message ?? `the service answered with status ${status}`);
    this.name = "ApiError";
    this.status = status;
    this.code = /** @type {string} */ (body?.Code ?? "");
    this.hint = /** @type {string} */ (body?.Hint ?? "");
    this.details = /** @type {Json[]} */ (body?.Details ?? []);
    this.requestId = /** @type {string} */ (body?.RequestID ?? "");
  }
}

/** No answer came: the server is away, or too slow. */
export class Unreachable extends Error {
  constructor() {
    super("the orchestrator does not answer");
    this.name = "Unreachable";
  }
}

/**
 * The path of an operation with its query; parts are encoded, and empty parameters left out.
 * @param {string[]} parts
 * @param {Record<string, string | number | boolean | null | undefined>} [query]
 */
export function path(parts, query = {}) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) {
      search.set(name, String(value));
    }
  }
  const text = search.toString();
  return `${ROOT}/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * Sends a request; an answer other than 2xx is an `ApiError`, none at all `Unreachable`.
 * @param {string} url
 * @param {RequestInit & { endless?: boolean }} [options] `endless` bodies have no time limit
 * @returns {Promise<Response>}
 */
export async function send(url, options = {}) {
  const { endless, signal, ...rest } = options;
  const limits = [...(signal ? [signal] : []), ...(endless ? [] : [AbortSignal.timeout(TIMEOUT_MS)])];
  let response;
  try {
    response = await fetch(url, { ...rest, signal: AbortSignal.any(limits), cache: "no-store" });
  } catch (error) {
    if (signal?.aborted) throw error;
    connection.lost();
    throw new Unreachable();
  }
  connection.answered();
  if (response.ok) return response;
  const error = new ApiError(response.status, await response.json().catch(() => null));
  // A view that asked is left before it could show the refusal.
  if (response.status === 401) await session.check();
  throw error;
}

/** @param {string} url @param {AbortSignal} [signal] @returns {Promise<Json>} */
export async function get(url, signal) {
  const response = await send(url, { signal });
  return await response.json();
}

/**
 * @param {"PUT" | "POST" | "DELETE"} method
 * @param {string} url
 * @param {Json} [body]
 * @param {{ signal?: AbortSignal, headers?: Record<string, string>, type?: string }} [options]
 * @returns {Promise<Json>}
 */
export async function change(method, url, body, options = {}) {
  const text = body === undefined || typeof body === "string" ? body : JSON.stringify(body);
  const headers = {
    ...(text === undefined ? {} : { "Content-Type": options.type ?? "application/json" }),
    ...options.headers,
  };
  const response = await send(url, { method, body: text, headers, signal: options.signal });
  return await response.json();
}

/**
 * Reads pages of a list until it ends or holds `most` rows.
 * @param {(token: string, limit: number) => string} url
 * @param {string} field
 * @param {number} most
 * @param {AbortSignal} [signal]
 * @returns {Promise<{ rows: Json[], more: boolean }>}
 */
export async function all(url, field, most, signal) {
  /** @type {Json[]} */
  const rows = [];
  let token = "";
  do {
    const page = await get(url(token, Math.min(1000, most - rows.length)), signal);
    rows.push(...page[field]);
    token = page.NextToken;
  } while (token && rows.length < most);
  return { rows, more: token !== "" };
}
