// Tells views what changed on the server: by the shared worker, by the tab that holds a lock, or by polling.

import { connection } from "./connection.js";
import { session } from "./session.js";
import { followChanges } from "./stream.js";

/** @import { Change } from "../types.d.ts" */
/** @import { Message } from "./stream.js" */

// Without a stream, visible views are read again this often.
const POLL_MS = 5000;
// The shared worker forgets tabs that are silent for longer than three of these.
const HEARTBEAT_MS = 30_000;
// A stream that was refused although one is signed in is opened again after this time.
const REFUSED_MS = 5000;

const LOCK = "changes";

class Live extends EventTarget {
  /** @type {"connecting" | "open" | "lost" | "unsupported" | "signedOut"} */
  state = "connecting";
  #timer = 0;
  #again = () => {};

  start() {
    // A stream has the rights of the person who was signed in when it was opened.
    session.addEventListener("begin", () => {
      this.#become("signedOut");
      this.#again();
    });
    if (!this.#shareWorker()) this.#shareLock();
    connection.addEventListener("back", () => this.#announce({ all: true }));
    this.#poll();
  }

  #shareWorker() {
    if (typeof SharedWorker === "undefined") return false;
    try {
      const worker = new SharedWorker(trusted(new URL("./worker.js", import.meta.url).href), {
        type: "module",
        name: "changes",
      });
      // A worker that cannot start leaves the lock to do its work.
      worker.addEventListener("error", () => this.#shareLock(), { once: true });
      worker.port.onmessage = (event) => this.#receive(event.data);
      const beat = setInterval(() => worker.port.postMessage("here"), HEARTBEAT_MS);
      this.#again = () => worker.port.postMessage("again");
      addEventListener("pagehide", () => worker.port.postMessage("bye"));
      addEventListener("pageshow", (event) => event.persisted && worker.port.postMessage("here"));
      return beat !== 0;
    } catch {
      return false;
    }
  }

  // The tab that gets the lock holds it, and the stream, until it is closed.
  #shareLock() {
    if (!navigator.locks || typeof BroadcastChannel === "undefined") return this.#become("unsupported");
    const channel = new BroadcastChannel(LOCK);
    channel.onmessage = (event) => this.#receive(event.data);
    void navigator.locks.request(LOCK, () =>
      new Promise(() => {
        const tell = (/** @type {Message} */ message) => {
          channel.postMessage(message);
          this.#receive(message);
        };
        let stop = followChanges(tell);
        this.#again = () => {
          stop();
          stop = followChanges(tell);
        };
      }));
  }

  /** @param {Message} message */
  #receive(message) {
    if (message.kind === "state") {
      const reopened = message.state === "open" && this.state === "lost";
      // Between the page and its stream something may have happened.
      const missed = message.state === "open" && this.state === "signedOut";
      this.#become(message.state);
      if (missed) this.#announce({ all: true });
      if (message.state === "lost") void connection.lost();
      if (message.state === "signedOut") {
        connection.answered();
        void session.check();
        // A user may have signed in just after the stream was refused.
        setTimeout(() => this.state === "signedOut" && !session.asks && this.#again(), REFUSED_MS);
      }
      // What happened in between follows in the stream's first message, unless the server cannot tell.
      if (reopened) connection.answered();
      return;
    }
    connection.answered();
    this.#become("open");
    const { Jobs = [], Nodes = [], More = false, Cluster = false } = message.data;
    this.#announce({ all: More, jobs: new Set(Jobs), nodes: new Set(Nodes), cluster: Cluster });
  }

  /** @param {Partial<Change>} change */
  #announce(change) {
    /** @type {Change} */
    const detail = { all: false, jobs: new Set(), nodes: new Set(), cluster: false, ...change };
    if (!detail.all && !detail.jobs.size && !detail.nodes.size && !detail.cluster) return;
    this.dispatchEvent(new CustomEvent("changes", { detail }));
  }

  /** @param {Live["state"]} state */
  #become(state) {
    if (this.state === state) return;
    this.state = state;
    this.dispatchEvent(new Event("state"));
  }

  #poll() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      const isBlind = this.state !== "open" && !session.asks;
      if (isBlind && !connection.isLost && !document.hidden) this.#announce({ all: true });
      this.#poll();
    }, POLL_MS);
  }
}

/** The URL of the own worker, as the page's policy demands it. @param {string} url */
function trusted(url) {
  const types = /** @type {any} */ (globalThis).trustedTypes;
  if (!types) return url;
  return types.createPolicy("ui", {
    createScriptURL: (/** @type {string} */ asked) => {
      if (new URL(asked).origin !== location.origin) {
        throw new TypeError("only the page's own worker may run");
      }
      return asked;
    },
  }).createScriptURL(url);
}

export const live = new Live();
