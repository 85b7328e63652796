// Reads the log of a job as it grows, and resumes after an interruption without losing or repeating a line.

import { path, send } from "../api.js";
import { connection } from "../connection.js";

/** @import { Line } from "./log-buffer.js" */

const RETRY_MS = 1000;
const LONGEST_RETRY_MS = 10_000;
// Lines are handed on in batches, so that a fast log costs one drawing for each.
const BATCH = 2000;
// More positions than this would not fit into the head of a request.
const MOST_POSITIONS = 500;

/** @typedef {{ jobId: string, execution?: string, tail?: number }} Asked */
/** @typedef {"restarted" | "reading" | "ended" | "interrupted" | { error: unknown }} LogState */

/**
 * @param {Asked} asked
 * @param {AbortSignal} signal
 * @param {(lines: Omit<Line, "id">[]) => void} take
 * @param {(state: LogState) => void} tell `restarted` means that the lines so far come once more
 */
export async function followLog(asked, signal, take, tell) {
  const seen = new Seen();
  let delay = RETRY_MS;
  while (!signal.aborted) {
    try {
      // Lines are told apart by their offsets; without them the log is read anew.
      const resumes = seen.hasOffsets;
      const tail = resumes ? undefined : asked.tail;
      const url = path(["jobs", asked.jobId, "logs"], {
        follow: true,
        order: "time",
        execution_id: asked.execution,
        tail,
        from: seen.position(),
      });
      const response = await send(url, {
        signal,
        endless: true,
        headers: { Accept: "application/x-ndjson" },
      });
      if (!resumes) tell("restarted");
      tell("reading");
      await read(response, (lines) => {
        delay = RETRY_MS;
        const fresh = lines.filter((line) => seen.isNew(line));
        if (fresh.length) take(fresh);
      });
      return tell("ended");
    } catch (error) {
      if (signal.aborted) return;
      const refusal = /** @type {any} */ (error)?.name === "ApiError" ? /** @type {any} */ (error) : null;
      if (refusal && refusal.status < 500 && refusal.status !== 429) return tell({ error });
      tell("interrupted");
      await pause(delay, signal);
      delay = Math.min(LONGEST_RETRY_MS, delay * 2);
    }
  }
}

/** @param {Response} response @param {(lines: any[]) => void} take */
async function read(response, take) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    for (let at = 0; at < parts.length; at += BATCH) {
      take(parts.slice(at, at + BATCH).filter(Boolean).map(parse));
      // The page stays responsive while a large log arrives.
      if (at + BATCH < parts.length) await new Promise((resolve) => setTimeout(resolve));
    }
  }
  if (rest) take([parse(rest)]);
}

/** @param {string} text */
function parse(text) {
  const { ExecutionID, Index, Stream, Time, Line, Offset } = JSON.parse(text);
  return { execution: ExecutionID, index: Index, stream: Stream, time: Time, line: Line, offset: Offset };
}

/** Knows which lines were taken, by the byte offset at which each stream's last one ended. */
export class Seen {
  /** @type {Map<string, number>} */
  #last = new Map();

  get hasOffsets() {
    return this.#last.size > 0;
  }

  /** Where to resume, as the API takes it; without it the log is read again, and what was taken is skipped. */
  position() {
    if (this.#last.size > MOST_POSITIONS) return "";
    return [...this.#last].map(([stream, offset]) => `${stream}.${offset}`).join(",");
  }

  /** @param {{ execution: string, stream: string, offset?: number }} line */
  isNew(line) {
    if (line.offset === undefined || line.stream === "service") return true;
    const key = `${line.execution}.${line.stream}`;
    if (line.offset <= (this.#last.get(key) ?? -1)) return false;
    this.#last.set(key, line.offset);
    return true;
  }
}

/** Waits, but not longer than the server is away. @param {number} ms @param {AbortSignal} signal */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      connection.removeEventListener("back", done);
      resolve(undefined);
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    connection.addEventListener("back", done);
  });
}
