// Reads the server's stream of changes; the shared worker and the tab that holds the lock run it.

import { identify } from "./identify.js";

// EventSource retries by itself after an interruption, but gives up after an error status.
const REOPEN_MS = 2000;
// A server without `changes` is not asked again soon.
const UNSUPPORTED_MS = 60_000;

/** @typedef {{ kind: "changes", data: any } | { kind: "state", state: "open" | "lost" | "unsupported" | "signedOut" }} Message */

/**
 * @param {(message: Message) => void} tell
 * @returns {() => void} ends the stream
 */
export function followChanges(tell) {
  let last = "";
  let closed = false;
  /** @type {EventSource | null} */
  let source = null;
  let timer = 0;

  const open = () => {
    if (closed) return;
    const resume = last ? `?last_event_id=${encodeURIComponent(last)}` : "";
    source = new EventSource(`/api/v1/orchestrator/changes${resume}`);
    source.addEventListener("open", () => tell({ kind: "state", state: "open" }));
    source.addEventListener("changes", (event) => {
      last = event.lastEventId || last;
      tell({ kind: "changes", data: JSON.parse(event.data) });
    });
    source.addEventListener("error", () => {
      if (source?.readyState !== EventSource.CLOSED) return tell({ kind: "state", state: "lost" });
      source.close();
      void refused();
    });
  };

  // The stream was refused, or answered by something else; what it was decides when to try again.
  const refused = async () => {
    // Without a token every try would be refused; signing in starts the stream anew.
    const { status: allowed } = await identify();
    if (closed) return;
    if (allowed === 401) return tell({ kind: "state", state: "signedOut" });
    const status = await fetch("/api/v1/orchestrator/changes", { method: "HEAD", cache: "no-store" })
      .then((response) => response.status, () => 0);
    if (closed) return;
    const unsupported = status === 404 || status === 405;
    tell({ kind: "state", state: unsupported ? "unsupported" : "lost" });
    // The position may be the reason: another database has other numbers.
    last = "";
    timer = setTimeout(open, unsupported ? UNSUPPORTED_MS : REOPEN_MS);
  };

  open();
  return () => {
    closed = true;
    clearTimeout(timer);
    source?.close();
  };
}
