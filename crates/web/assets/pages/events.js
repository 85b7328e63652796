// The live feed of events, newest first, with filters and a pause; equal events are one row.

import { ApiError, path, send } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { copyLines } from "../elements/copy.js";
import { becameLook, eventHead, eventRow, gapRow } from "../elements/event.js";
import { addEvent } from "../elements/fold.js";
import { fill, h, reconcile, say } from "../dom.js";
import { count } from "../format.js";
import { choice, typed } from "../elements/fields.js";
import { usualNamespace } from "../jobs/filters.js";
import { namespaceField } from "../jobs/namespaces.js";
import { eventArguments } from "../lines.js";
import { jobText, nodeText, whenJobsNamed } from "../names.js";
import { empty, failure } from "../notes.js";
import { rewriteQuery } from "../router.js";
import { EVENT_WORDS } from "../state.js";

/** @import { HistoryEvent, Shown, Visit } from "../../types.d.ts" */
/** @import { Fold } from "../elements/fold.js" */

/** @typedef {{ From: number, To: number }} Gap */
/** @typedef {Fold & { gap?: Gap }} Row */
/** @typedef {{ state: string, job: string, node: string, text: string }} Only */

const MOST_ROWS = 300;
// Events that the filters choose from.
const MOST_KEPT = 3000;
// Rows are drawn at most this often, however fast events come.
const DRAW_MS = 250;
// The feed begins with what happened just before it was opened.
const SINCE = "10m";
// A feed that is refused or broken is opened again after this time.
const REOPEN_MS = 3000;

/** @type {[string, string][]} */
const KINDS = [["", "Jobs and executions"], ["job", "Jobs"], ["execution", "Executions"], ["node", "Nodes"]];

const FILTERS = /** @type {const} */ (["state", "job", "node", "text"]);

/** @param {Visit} visit @returns {Shown} */
export default function events(visit) {
  const feed = new Feed(visit);
  return { title: "Events", element: feed.element };
}

/** Whether an event is what the filters ask for. @param {HistoryEvent} event @param {Only} only */
export function isWanted(event, only) {
  const has = (/** @type {string} */ wanted, /** @type {string[]} */ ...texts) =>
    !wanted || texts.some((text) => text.toLowerCase().includes(wanted.toLowerCase()));
  return (!only.state || becameLook(event)?.word === only.state) &&
    has(only.job, event.JobID, event.JobName ?? (event.JobID && jobText(event.JobID))) &&
    has(only.node, event.NodeID, event.NodeName ?? (event.NodeID && nodeText(event.NodeID))) &&
    has(only.text, event.Comment);
}

class Feed {
  kind;
  namespace;
  /** @type {EventSource | null} */ source = null;
  last = "";
  /** The newest events, the last one last. @type {(HistoryEvent | Gap)[]} */ kept = [];
  /** Those of them that are not drawn yet. @type {(HistoryEvent | Gap)[]} */ waiting = [];
  /** What is drawn, the newest last. @type {Row[]} */ rows = [];
  read = 0;
  paused = false;
  timer = 0;
  again = 0;

  /** @param {Visit} visit */
  constructor(visit) {
    const asked = (/** @type {string} */ name) => visit.query.get(name) ?? "";
    this.kind = asked("kind");
    this.signal = visit.signal;
    this.namespace = asked("namespace") || usualNamespace();
    /** @type {Only} */
    this.only = { state: asked("state"), job: asked("job"), node: asked("node"), text: asked("text") };
    this.body = h("tbody");
    this.table = h("table", { "aria-label": "Events" }, eventHead(true), this.body);
    this.box = h("div");
    this.status = h("p", { class: "small muted end", role: "status" });
    this.pause = h(
      "button",
      { type: "button", "aria-pressed": "false", onclick: () => this.togglePause() },
      "Pause",
    );
    this.element = h(
      "section",
      null,
      h("header", { class: "title" }, h("h1", null, "Events")),
      h("div", { class: "toolbar filters" }, ...this.#filters(), this.status),
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

  #filters() {
    const namespaces = namespaceField(this.namespace, (name) => this.#choose(this.kind, name));
    const field = (/** @type {"job" | "node" | "text"} */ name, /** @type {string} */ word) =>
      typed(word, word, this.only[name], "search", (text) => this.#narrow({ [name]: text }));
    /** @type {[string, string][]} */
    const words = [
      ["", "Any state"],
      ...EVENT_WORDS.map((word) => /** @type {[string, string]} */ ([word, word])),
    ];
    return [
      choice("Kind", KINDS, this.kind, (kind) => {
        // Nodes belong to no namespace.
        for (const part of namespaces) part.hidden = kind === "node";
        this.#choose(kind, this.namespace);
      }),
      choice("State", words, this.only.state, (state) => this.#narrow({ state })),
      field("job", "Job"),
      field("node", "Node"),
      field("text", "Text"),
      namespaces,
      this.pause,
      copyLines(
        "these events",
        () => curl("GET", this.#url({ since: SINCE }), { flags: ["-N"] }),
        () => jobctl(eventArguments({ kind: this.kind, namespace: this.namespace, since: SINCE })),
      ),
    ];
  }

  #keepInUrl() {
    const query = new URLSearchParams();
    if (this.kind) query.set("kind", this.kind);
    if (this.namespace !== usualNamespace()) query.set("namespace", this.namespace);
    for (const name of FILTERS) if (this.only[name]) query.set(name, this.only[name]);
    rewriteQuery(query);
  }

  /** Draws what was read once more, for other filters. @param {Partial<Only>} only */
  #narrow(only) {
    Object.assign(this.only, only);
    this.#keepInUrl();
    this.#redraw();
  }

  #redraw() {
    this.rows = [];
    this.waiting = [...this.kept];
    fill(this.body);
    this.#empty();
    this.#draw();
    this.#tell();
  }

  /** @param {string} kind @param {string} namespace */
  #choose(kind, namespace) {
    this.kind = kind;
    this.namespace = namespace;
    this.#keepInUrl();
    this.close();
    this.last = "";
    this.kept = [];
    this.read = 0;
    this.#redraw();
    this.open();
  }

  #empty() {
    const isNarrowed = FILTERS.some((name) => this.only[name]);
    fill(
      this.box,
      isNarrowed
        ? empty("No event matches these filters", h("p", null, "Those that come are shown as they happen."))
        : empty(
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

  /** @param {MessageEvent} message @param {HistoryEvent | Gap} event */
  #take(message, event) {
    this.last = message.lastEventId || this.last;
    this.read += 1;
    this.kept.push(event);
    // The array is cut in steps, since cutting it for every event would copy it for every event.
    if (this.kept.length > 2 * MOST_KEPT) this.kept = this.kept.slice(-MOST_KEPT);
    this.waiting.push(event);
    if (this.waiting.length > 2 * MOST_KEPT) this.waiting = this.waiting.slice(-MOST_KEPT);
    if (!this.timer) {
      this.timer = setTimeout(() => {
        this.timer = 0;
        if (!this.paused) this.#draw();
        this.#tell();
      }, DRAW_MS);
    }
  }

  #draw() {
    if (this.only.job) this.#redrawWhenNamed();
    for (const event of this.waiting) {
      if ("From" in event) this.rows.push({ key: "", id: -event.From, events: [], count: 1, gap: event });
      else if (isWanted(event, this.only)) addEvent(this.rows, event);
    }
    this.waiting = [];
    this.rows = this.rows.slice(-MOST_ROWS);
    if (!this.rows.length) return;
    if (!this.table.isConnected) fill(this.box, this.table);
    reconcile(
      this.body,
      [...this.rows].reverse(),
      ({ id }) => String(id),
      (row, before) => row.gap ? before ?? gapRow(row.gap) : eventRow(row, true, before),
    );
  }

  /** Names that become known may match what is asked for. */
  #redrawWhenNamed() {
    const ids = this.waiting.map((event) => "From" in event || event.JobName ? "" : event.JobID);
    whenJobsNamed([...new Set(ids)], () => this.signal.aborted || this.paused || this.#redraw());
  }

  togglePause() {
    this.paused = !this.paused;
    this.pause.setAttribute("aria-pressed", String(this.paused));
    if (!this.paused) this.#draw();
    this.#tell();
  }

  #tell() {
    const held = this.paused && this.waiting.length ? `; ${count(this.waiting.length)} new` : "";
    say(this.pause, this.paused ? `Go on` : "Pause");
    const state = this.paused
      ? "Paused"
      : this.source?.readyState === EventSource.OPEN
      ? "Live"
      : "Connecting…";
    say(this.status, `${state}${held}; ${count(this.read)} read, the newest ${count(MOST_KEPT)} are kept`);
  }
}
