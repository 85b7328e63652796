// The draft of a submission: kept in this browser until it is submitted, with the key that makes a repetition harmless.

import { session } from "../session.js";

/** @import { Json } from "../../types.d.ts" */

const KEY = "draft";
// A draft with a large inline input does not fit; it lives as long as this document.
const LARGEST = 1_000_000;

/** @typedef {{ text: string, mode: "form" | "text", key: string, from: string }} Draft */

/** @type {Draft | null} */
let unstored = null;

session.addEventListener("change", () => session.asks === "left" && saveDraft(null));

/** @returns {Draft | null} */
export function savedDraft() {
  if (unstored) return unstored;
  try {
    const draft = JSON.parse(localStorage.getItem(KEY) ?? "null");
    return typeof draft?.text === "string" ? draft : null;
  } catch {
    return null;
  }
}

/** @param {Draft | null} draft */
export function saveDraft(draft) {
  unstored = draft;
  try {
    if (draft && draft.text.length <= LARGEST) {
      localStorage.setItem(KEY, JSON.stringify(draft));
      unstored = null;
    } else localStorage.removeItem(KEY);
  } catch {
    // Without storage the document has it.
  }
}

/** A key for `Idempotency-Key`; `crypto.randomUUID` exists only over HTTPS. */
export function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}

/** What a text is written in: JSON begins with a brace, everything else is read as YAML. @param {string} text */
export function languageOf(text) {
  return text.trimStart().startsWith("{") ? "json" : "yaml";
}

/**
 * The job in a text of JSON, with or without the wrapper `Job`.
 * @param {string} text
 * @returns {{ job: Json } | { problem: string }}
 */
export function parseJob(text) {
  try {
    const value = JSON.parse(text);
    return { job: wrapped(value) ? value[wrapped(value) ?? ""] : value };
  } catch (error) {
    return { problem: String(/** @type {Error} */ (error).message) };
  }
}

/** The key of the wrapper, which the service matches without regard to case. @param {Json} value */
function wrapped(value) {
  if (typeof value !== "object" || value === null) return undefined;
  return Object.keys(value).find((key) => key.toLowerCase() === "job" && typeof value[key] === "object");
}

/** @param {Json} job */
export function jobText(job) {
  return JSON.stringify({ Job: job }, null, 2);
}

/**
 * What is sent: JSON gets the wrapper that the API wants, YAML is indented below one.
 * @param {string} text
 * @returns {{ body: string, type: string, above: number }} `above` counts the lines that were put above the text
 */
export function bodyOf(text) {
  if (languageOf(text) === "yaml") {
    const type = "application/yaml";
    if (/^job\s*:/im.test(text)) return { body: text, type, above: 0 };
    return { body: `Job:\n${text.replace(/^---\s*$/m, "").replace(/^/gm, "  ")}`, type, above: 1 };
  }
  const parsed = parseJob(text);
  const body = "job" in parsed ? JSON.stringify({ Job: parsed.job }) : text;
  return { body, type: "application/json", above: 0 };
}

/**
 * A parser's message with the places of the reader's own text: `above` lines stand above it, and it is indented below them.
 * @param {string} message @param {number} above
 */
export function inOwnLines(message, above) {
  if (!above) return message;
  return message.replace(
    /line (\d+) column (\d+)/g,
    (_, line, column) => `line ${Math.max(1, line - above)} column ${Math.max(1, column - 2)}`,
  );
}
