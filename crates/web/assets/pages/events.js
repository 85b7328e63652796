// The live feed of events, newest first, with filters and a pause.

import { ApiError, path, send } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { copyLines } from "../elements/copy.js";
import { eventHead, eventRow } from "../elements/event.js";
import { fill, h, say } from "../dom.js";
import { count } from "../format.js";
import { choice } from "../elements/fields.js";
import { usualNamespace } from "../jobs/filters.js";
import { namespaceField } from "../jobs/namespaces.js";
import { eventArguments } from "../lines.js";
import { empty, failure } from "../notes.js";
import { rewriteQuery } from "../router.js";

/** @import { HistoryEvent, Shown, Visit } from "../../types.d.ts" */

const MOST_ROWS = 300;
// Rows are drawn at most this often, however fast events come.
const DRAW_MS = 250;
// The feed begins with what happened just before it was opened.
const SINCE = "10m";
// A feed that is refused or broken is opened again after this time.
const REOPEN_MS = 3000;

/** @type {[string, string][]} */
const KINDS = [["", "Jobs and executions"], ["job", "Jobs"], ["execution", "Executions"], ["node", "Nodes"]];

/** @param {Visit} visit @returns {Shown} */
export default function events(visit) {
  const feed = new Feed(visit);
  return { title: "Events", element: feed.element };
}

class Feed {
  kind;
  namespace;
  /** @type {EventSource | null} */ source = null;
  last = "";
  /** Events that were read but not drawn. @type {(HistoryEvent | { From: number, To: number })[]} */ waiting =
    [];
  read = 0;
  paused = false;
  timer = 0;
  again = 0;

  /** @param {Visit} visit */
  constructor(visit) {
    this.kind = visit.query.get("kind") ?? "";
    this.signal = visit.signal;
    this.namespace = visit.query.get("namespace") || usualNamespace();
    this.body = h("tbody");
    this.table = h("table", { "aria-label": "Events" }, eventHead(true), this.body);
    this.box = h("div");
    this.status = h("p", { class: "small muted end", role: "status" });
    this.pause = h(
      "button",
      { type: "button", "aria-pressed": "false", onclick: () => this.togglePause() },
      "Pause",
    );
    const namespaces = namespaceField(this.namespace, (name) => this.#choose(this.kind, name));
    this.element = h(
      "section",
      null,
      h("header", { class: "title" }, h("h1", null, "Events")),
      h(
        "div",
        { class: "toolbar" },
        choice("Kind", KINDS, this.kind, (kind) => {
          // Nodes belong to no namespace.
          for (const field of namespaces) field.hidden = kind === "node";
          this.#choose(kind, this.namespace);
        }),
        namespaces,
        this.pause,
        copyLines(
          "these events",
          () => curl("GET", this.#url({ since: SINCE }), { flags: ["-N"] }),
          () => jobctl(eventArguments({ kind: this.kind, namespace: this.namespace, since: SINCE })),
        ),
        this.status,
      ),
      this.box,
    );
    // The stream takes one of the few connections of the browser, so a hidden page gives it back.
    document.addEventListener("visibilitychange", () => document.hidden ? this.close() : this.open(), {
      signal: visit.signal,
    });
    visit.signal.addEventListener("abort", () => this.close());
    this.#empty();
    this.open();
  }

  /** @param {string} kind @param {string} namespace */
  #choose(kind, namespace) {
    this.kind = kind;
    this.namespace = namespace;
    const query = new URLSearchParams();
    if (kind) query.set("kind", kind);
    if (namespace !== usualNamespace()) query.set("namespace", namespace);
    rewriteQuery(query);
    this.close();
    this.last = "";
    this.waiting = [];
    this.read = 0;
    fill(this.body);
    this.#empty();
    this.open();
  }

  #empty() {
    fill(
      this.box,
      empty(
        "No event in the last ten minutes",
        h("p", null, "Changes of jobs, executions and nodes appear here as they happen."),
      ),
    );
  }

  /** @param {{ since: string } | { last_event_id: string }} from */
  #url(from) {
    const namespace = this.namespace === "*" || this.kind === "node" ? "" : this.namespace;
    return path(["events"], { event_type: this.kind, namespace, ...from });
  }

  open() {
    if (this.source) return;
    const source = new EventSource(this.#url(this.last ? { last_event_id: this.last } : { since: SINCE }));
    this.source = source;
    source.onmessage = (event) => this.#take(event, JSON.parse(event.data));
    source.addEventListener("gap", (event) => this.#take(event, JSON.parse(event.data)));
    source.onopen = () => this.#tell();
    source.onerror = () => {
      this.#tell();
      if (source.readyState === EventSource.CLOSED) void this.#refused(source.url);
    };
    this.#tell();
  }

  /** An event source does not say why it was refused, so the same is asked once more. @param {string} url */
  async #refused(url) {
    this.close();
    // Its position may belong to another database.
    this.last = "";
    const { source } = this;
    try {
      const response = await send(url, { signal: this.signal, endless: true });
      await response.body?.cancel();
    } catch (error) {
      if (this.signal.aborted || this.source !== source) return;
      if (error instanceof ApiError && error.status < 500 && error.status !== 429) {
        return fill(this.box, failure(error, () => this.#choose(this.kind, this.namespace)));
      }
    }
    if (!this.signal.aborted) this.again = setTimeout(() => this.open(), REOPEN_MS);
  }

  close() {
    this.source?.close();
    this.source = null;
    clearTimeout(this.again);
  }

  /** @param {MessageEvent} message @param {any} event */
  #take(message, event) {
    this.last = message.lastEventId || this.last;
    this.read += 1;
    this.waiting.push(event);
    if (this.waiting.length > MOST_ROWS) this.waiting.splice(0, this.waiting.length - MOST_ROWS);
    if (!this.timer) {
      this.timer = setTimeout(() => {
        this.timer = 0;
        if (!this.paused) this.#draw();
        this.#tell();
      }, DRAW_MS);
    }
  }

  #draw() {
    if (!this.waiting.length) return;
    if (!this.table.isConnected) fill(this.box, this.table);
    const rows = this.waiting.reverse().map((event) =>
      "From" in event ? gapRow(event) : eventRow(event, true)
    );
    this.waiting = [];
    this.body.prepend(...rows);
    while (this.body.children.length > MOST_ROWS) this.body.lastElementChild?.remove();
  }

  togglePause() {
    this.paused = !this.paused;
    this.pause.setAttribute("aria-pressed", String(this.paused));
    if (!this.paused) this.#draw();
    this.#tell();
  }

  #tell() {
    const held = this.paused && this.waiting.length
      ? `; ${this.waiting.length >= MOST_ROWS ? `${MOST_ROWS} or more` : this.waiting.length} new`
      : "";
    say(this.pause, this.paused ? `Go on` : "Pause");
    const state = this.paused
      ? "Paused"
      : this.source?.readyState === EventSource.OPEN
      ? "Live"
      : "Connecting…";
    say(this.status, `${state}${held}; ${count(this.read)} read, the newest ${MOST_ROWS} are kept`);
  }
}

/** @param {{ From: number, To: number }} gap */
function gapRow(gap) {
  return h(
    "tr",
    { class: "flat" },
    h(
      "td",
      { colspan: 6, class: "tone-attention" },
      `Events ${gap.From} to ${gap.To} are gone: retention removed them.`,
    ),
  );
}
