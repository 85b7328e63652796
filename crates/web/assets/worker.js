// The shared worker: one stream of changes for all tabs, because a browser opens only six connections to a server.

import { followChanges } from "./stream.js";

// A tab that was closed cannot say so; one that has not written for this long is forgotten.
const FORGET_MS = 90_000;
// Every tab is notified of a sign-in, and asks for another stream within this time.
const RESTART_MS = 100;

/** @type {Map<MessagePort, number>} */
const ports = new Map();
/** @type {(() => void) | null} */
let stop = null;
/** @type {import("./stream.js").Message | null} */
let state = null;
let restarting = 0;

const scope = /** @type {any} */ (self);

scope.onconnect = (/** @type {MessageEvent} */ event) => {
  const port = event.ports[0];
  ports.set(port, Date.now());
  port.onmessage = (message) => {
    // A tab that was frozen for longer than that has missed something.
    if (!ports.has(port) && message.data !== "bye") {
      port.postMessage({ kind: "changes", data: { More: true } });
    }
    if (message.data === "bye") ports.delete(port);
    else ports.set(port, Date.now());
    if (message.data === "again") {
      clearTimeout(restarting);
      restarting = setTimeout(restart, RESTART_MS);
    }
    settle();
  };
  if (state) port.postMessage(state);
  settle();
};

/** Follows while there is a tab, and frees the connection otherwise. */
function settle() {
  if (ports.size && !stop) stop = followChanges(tell);
  if (!ports.size && stop) end();
}

function end() {
  stop?.();
  stop = null;
  state = null;
}

function restart() {
  end();
  settle();
}

/** @param {import("./stream.js").Message} message */
function tell(message) {
  if (message.kind === "state") state = message;
  for (const port of ports.keys()) port.postMessage(message);
}

setInterval(() => {
  for (const [port, seen] of ports) if (Date.now() - seen > FORGET_MS) ports.delete(port);
  settle();
}, FORGET_MS / 3);
