// Keeps a view fresh: loads it, loads it again when something it shows has changed, at most once a second.

import { ApiError } from "./api.js";
import { connection } from "./connection.js";
import { live } from "./live.js";

/** @import { Change } from "../types.d.ts" */

const LEAST_MS = 1000;
// A service that is busy or cannot answer now is asked again after this time.
const RETRY_MS = 5000;

/**
 * @template T
 * @param {{
 *   signal: AbortSignal,
 *   load: (signal: AbortSignal) => Promise<T>,
 *   show: (data: T) => void,
 *   fail: (error: unknown) => void,
 *   cares: (change: Change) => boolean,
 * }} view `fail` is called for refusals, and for a server that is away before anything was shown
 * @returns {() => void} loads it now
 */
export function keepFresh(view) {
  let stale = false;
  let busy = false;
  let shown = false;
  let startedAt = 0;
  let timer = 0;

  const run = async () => {
    if (busy || view.signal.aborted) {
      stale = true;
      return;
    }
    stale = false;
    busy = true;
    startedAt = Date.now();
    try {
      const data = await view.load(view.signal);
      if (view.signal.aborted) return;
      view.show(data);
      shown = true;
    } catch (error) {
      if (view.signal.aborted) return;
      // What is shown stays while the server is away; the banner says so.
      const isTransient = connection.isLost || statusOf(error) === 429 || statusOf(error) >= 500;
      if (!(shown && isTransient)) view.fail(error);
      if (connection.isLost) stale = true;
      else if (isTransient) setTimeout(wait, RETRY_MS);
      else if (!statusOf(error)) console.error(error);
    } finally {
      busy = false;
      if (stale && !connection.isLost) wait();
    }
  };

  const wait = () => {
    stale = true;
    if (document.hidden || busy || timer || view.signal.aborted) return;
    timer = setTimeout(() => {
      timer = 0;
      void run();
    }, Math.max(0, startedAt + LEAST_MS - Date.now()));
  };

  const options = { signal: view.signal };
  live.addEventListener("changes", (event) => {
    const change = /** @type {CustomEvent<Change>} */ (event).detail;
    if (change.all || view.cares(change)) wait();
  }, options);
  document.addEventListener("visibilitychange", () => stale && !document.hidden && wait(), options);
  connection.addEventListener("back", () => wait(), options);
  view.signal.addEventListener("abort", () => clearTimeout(timer));
  void run();
  return () => void run();
}

/** The status of a refusal; 0 for anything else. @param {unknown} error */
function statusOf(error) {
  return error instanceof ApiError ? error.status : 0;
}
