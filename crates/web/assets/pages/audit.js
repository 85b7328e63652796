// The audit log: who changed what and who was denied, newest first, and whether its chains are intact.

import { get, path } from "../api.js";
import { faultOf } from "../access/chain.js";
import { auditArguments } from "../access/lines.js";
import { accessPage, fromTimeToTime } from "../access/tabs.js";
import { curl, jobctl } from "../commands.js";
import { fill, h, reconcile, say, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { choice, typed } from "../elements/fields.js";
import { count } from "../format.js";
import { icon } from "../icons.js";
import { empty, failure, loading, needsRole } from "../notes.js";
import { rewriteQuery } from "../router.js";
import { session } from "../session.js";

/** @import { AuditRecord, Shown, Visit } from "../../types.d.ts" */

const PATH = "/access/audit";
const TITLE = "Audit log";
const PAGE = 100;
const MOST_ROWS = 1000;

/** @type {[string, string][]} */
const SPANS = [["", "Any time"], ["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"]];

/** @type {[string, string][]} */
const CHAINS = [["", "Changes"], ["rest", "All other requests"]];

/** @param {Visit} visit @returns {Shown} */
export default function audit(visit) {
  if (!session.may("audit")) {
    return { title: TITLE, element: accessPage(PATH, needsRole("The audit log needs", "admin")) };
  }
  return { title: TITLE, element: new AuditLog(visit).element };
}

class AuditLog {
  /** Newest first. @type {AuditRecord[]} */ records = [];
  token = "";
  reading = new AbortController();

  /** @param {Visit} visit */
  constructor({ query, signal }) {
    this.signal = signal;
    this.filters = Object.fromEntries(
      ["chain", "user", "operation", "since"].map((name) => [name, query.get(name) ?? ""]),
    );
    const { chain, user, operation, since } = this.filters;
    this.body = h("tbody");
    this.table = h("table", { "aria-label": TITLE }, head(), this.body);
    this.chain = h("p", { class: "quiet-note", role: "status" });
    this.newer = h("button", { type: "button", onclick: () => void this.start() });
    this.newerBox = h("div", { class: "pending-rows", hidden: true }, this.newer);
    this.more = h("div", { class: "more" });
    this.box = h("div", { class: "table-box" }, loading());
    const spans = SPANS.some(([value]) => value === since) ? SPANS : [...SPANS, [since, `Since ${since}`]];
    this.element = accessPage(
      PATH,
      h(
        "div",
        { class: "tab-body" },
        h(
          "div",
          { class: "toolbar", role: "search", "aria-label": "Filters" },
          choice("Records", CHAINS, chain, (value) => this.narrow({ chain: value })),
          typed("User", "Name of a token", user, "search", (text) => this.narrow({ user: text })),
          typed(
            "Operation: stopJob",
            "Operation",
            operation,
            "search",
            (text) => this.narrow({ operation: text }),
          ),
          choice(
            "Time",
            /** @type {[string, string][]} */ (spans),
            since,
            (value) => this.narrow({ since: value }),
          ),
          copyLines(
            "these records",
            () => curl("GET", this.#url({ limit: PAGE })),
            () => jobctl(auditArguments(this.filters, PAGE)),
          ),
        ),
        this.chain,
        this.box,
      ),
    );
    signal.addEventListener("abort", () => this.reading.abort());
    fromTimeToTime(signal, () => void this.#countNewer());
    void this.start();
  }

  /** @param {Record<string, string>} filters */
  narrow(filters) {
    this.filters = { ...this.filters, ...filters };
    rewriteQuery(new URLSearchParams(Object.entries(this.filters).filter(([, value]) => value)));
    void this.start();
  }

  /** @param {Record<string, string | number>} page */
  #url(page) {
    return path(["audit"], { ...this.filters, reverse: true, ...page });
  }

  /** Reads the log from its newest record. */
  async start() {
    this.reading.abort();
    this.reading = new AbortController();
    this.records = [];
    this.token = "";
    this.newerBox.hidden = true;
    await this.next();
  }

  async next() {
    const { signal } = this.reading;
    try {
      const page = await get(this.#url({ limit: PAGE, next_token: this.token }), signal);
      if (signal.aborted) return;
      this.records.push(...page.Records);
      this.token = page.NextToken;
      this.#show();
      await this.#verify(signal);
    } catch (error) {
      const box = this.records.length ? this.more : this.box;
      if (!signal.aborted) fill(box, failure(error, () => void this.next()));
    }
  }

  #show() {
    if (!this.records.length) {
      say(this.chain, "");
      return fill(this.box, this.#nothing());
    }
    fill(this.box, this.newerBox, this.table, this.more);
    reconcile(
      this.body,
      this.records,
      ({ Chain, Sequence }) => `${Chain} ${Sequence}`,
      (record, before) => before ?? row(record),
    );
    if (!this.token) return fill(this.more);
    fill(
      this.more,
      this.records.length >= MOST_ROWS
        ? h("p", { class: "muted" }, `The newest ${count(MOST_ROWS)}; jobctl audit list shows others`)
        : h("button", { type: "button", onclick: () => void this.next() }, `Show ${PAGE} more`),
    );
  }

  /** @param {AbortSignal} signal */
  async #verify(signal) {
    const { records } = this;
    if (!records.length) return;
    const all = h("code", null, "jobctl audit verify");
    // Browsers hash only where the script cannot have been changed on the way.
    if (!isSecureContext) {
      return fill(this.chain, "Over plain HTTP this page verifies nothing; ", all, " does.");
    }
    const whole = !Object.entries(this.filters).some(([name, value]) => name !== "chain" && value);
    const fault = await faultOf(records, whole);
    if (signal.aborted) return;
    const shown = `${count(records.length)} ${records.length === 1 ? "record" : "records"}`;
    const said = fault
      ? h("strong", { class: "tone-failed" }, icon("cross"), ` The chain is broken: ${fault}. `)
      : h(
        "span",
        null,
        h("span", { class: "tone-completed" }, icon("check")),
        whole
          ? ` Verified: ${shown}, each with its hash and that of the one before. `
          : ` Verified: ${shown}, each with its hash. `,
      );
    fill(this.chain, said, all, " follows both chains from end to end.");
  }

  /** Rows do not move while one reads; what is new is counted. */
  async #countNewer() {
    const { signal } = this.reading;
    try {
      const page = await get(this.#url({ limit: PAGE }), signal);
      const top = this.records[0]?.Sequence ?? 0;
      const newer = page.Records.filter((/** @type {AuditRecord} */ record) => record.Sequence > top).length;
      if (newer && !top) return await this.start();
      this.newerBox.hidden = newer === 0;
      say(this.newer, newer >= PAGE ? `More than ${PAGE - 1} new` : `${newer} new`);
    } catch {
      // The banner says that the server is away, and the next round asks again.
    }
  }

  #nothing() {
    return Object.values(this.filters).some(Boolean)
      ? empty("No record matches these filters", h("a", { class: "button", href: PATH }, "Clear the filters"))
      : empty(
        "No record yet",
        h("p", null, "Whatever callers with tokens change, and what they are denied, is recorded here."),
      );
  }
}

function head() {
  return tableHead(
    ["fit number", "No."],
    ["", "Operation"],
    ["mid", "User"],
    ["wide", "Address"],
    ["mid fit", "Outcome"],
    ["number", "Time"],
  );
}

/** @param {AuditRecord} record */
function row(record) {
  const { Sequence, Operation, Object, User, TokenID, Address, RequestID, Time } = record;
  return h(
    "tr",
    null,
    h("td", { class: "fit number muted", title: `Request ${RequestID}` }, Sequence),
    h(
      "td",
      { class: "wrap" },
      h("strong", null, Operation),
      h("p", { class: "small muted" }, Object),
      h("p", { class: "narrow row-facts small" }, h("span", null, User), outcome(record)),
    ),
    h("td", { class: "mid wrap", title: `Token ${TokenID}` }, User),
    h("td", { class: "wide wrap muted" }, Address),
    h("td", { class: "mid fit" }, outcome(record)),
    h("td", { class: "number muted" }, timeAgo(Time)),
  );
}

/** @param {AuditRecord} record */
function outcome({ Outcome, Count }) {
  const denied = Outcome === "denied";
  return h(
    "span",
    { class: `state ${denied ? "attention" : "completed"}` },
    icon(denied ? "minus" : "check"),
    Count > 1 ? `${Outcome}, ${count(Count)} times` : Outcome,
  );
}
