// The list of jobs: filters in the URL, rows that never move by themselves, and actions on a selection.

import { get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { fill, h, reconcile, say, tableHead } from "../dom.js";
import { copyLines } from "../elements/copy.js";
import { plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { filterBar, readFilters, toQuery } from "../jobs/filters.js";
import { listArguments } from "../lines.js";
import { runsOfFailures } from "../jobs/alike.js";
import { jobRow } from "../jobs/row.js";
import { stopJobs } from "../jobs/stop.js";
import { viewsButton } from "../jobs/views.js";
import { empty, failure, loading } from "../notes.js";
import { rewriteQuery } from "../router.js";
import { session } from "../session.js";
import { moment } from "../time.js";

/** @import { Job, Shown, Visit } from "../../types.d.ts" */
/** @import { Filters } from "../jobs/filters.js" */

const PAGE = 50;
// More rows than this slow the document down; the list then continues on the next page.
const MOST_ROWS = 500;
// New jobs are counted up to here.
const COUNTED = 21;
// Rows that left the filter are read one by one, at most this many at a time.
const SINGLES = 10;
// A CreateTime loses up to 256 ns when it is read as a number.
const MARGIN_NS = 1000;

/** Null for a role that may not submit. */
function submitButton() {
  return session.may("submit") ? h("a", { class: "button primary", href: "/submit" }, "Submit a job") : null;
}

/** @param {Visit} visit @returns {Shown} */
export default function jobs(visit) {
  const list = new JobList(visit);
  return { title: "Jobs", element: list.element };
}

class JobList {
  /** @type {Job[]} */ rows = [];
  /** @type {Set<string>} */ selected = new Set();
  /** Rows that no longer match the filters. @type {Set<string>} */ gone = new Set();
  /** Rows that stand for others that failed in the same way. @type {Map<string, string[]>} */ alike =
    new Map();
  /** Those of them that show the others. @type {Set<string>} */ open = new Set();
  token = "";
  newCount = 0;
  /** @type {AbortController} */ listing = new AbortController();
  /** @type {() => void} */ refresh = () => {};

  /** @param {Visit} visit */
  constructor(visit) {
    this.visit = visit;
    this.filters = readFilters(visit.query);
    this.body = h("tbody");
    this.newer = h("button", { type: "button", onclick: () => this.start() });
    this.newerBox = h("div", { class: "pending-rows", hidden: true }, this.newer);
    this.more = h("div", { class: "more" });
    this.selection = h("div", { class: "actions end" });
    this.all = h("input", {
      type: "checkbox",
      "aria-label": "Select all rows",
      onchange: () => this.selectAll(),
    });
    this.table = h("table", { "aria-label": "Jobs", class: "jobs" }, this.#head(), this.body);
    this.box = h("div", { class: "table-box" }, loading());
    this.element = h(
      "section",
      null,
      h(
        "header",
        { class: "title" },
        h("h1", null, "Jobs"),
        h(
          "div",
          { class: "actions" },
          h("a", { class: "button quiet", href: "/graphs" }, "Graphs"),
          h("a", { class: "button quiet", href: "/schedules" }, "Schedules"),
          this.#copies(),
          viewsButton(() => toQuery(this.filters)),
          submitButton(),
        ),
      ),
      filterBar(this.filters, (filters) => this.refilter(filters), this.selection),
      this.box,
    );
    visit.signal.addEventListener("abort", () => this.listing.abort());
    this.start();
  }

  #head() {
    return tableHead(
      session.may("submit") ? h("th", { class: "mid fit" }, this.all) : null,
      ["mid fit", "State"],
      ["", "Job"],
      ["wide", "Namespace"],
      ["wide", "Type"],
      ["mid number", "Executions"],
      ["mid number", "Run time"],
      ["mid number", "Submitted"],
    );
  }

  /** @param {Filters} filters */
  refilter(filters) {
    this.filters = filters;
    this.visit.kept.rows = 0;
    rewriteQuery(toQuery(filters));
    this.start();
  }

  /** Reads the list from its first row. */
  start() {
    this.listing.abort();
    this.listing = new AbortController();
    this.rows = [];
    this.gone.clear();
    this.alike.clear();
    this.open.clear();
    this.newCount = 0;
    this.newerBox.hidden = true;
    this.refresh = keepFresh({
      signal: this.listing.signal,
      cares: (change) => change.jobs.size > 0,
      load: (signal) => this.rows.length ? this.reload(signal) : this.first(signal),
      show: () => this.show(),
      fail: (error) => fill(this.box, failure(error, () => this.refresh())),
    });
  }

  #copies() {
    return copyLines(
      "this list",
      () => curl("GET", this.#url({ limit: PAGE })),
      () => jobctl(listArguments(this.filters, PAGE)),
    );
  }

  /** @param {Record<string, string | number | boolean>} more */
  #url(more) {
    return path(["jobs"], { view: "summary", ...this.filters.asked(), ...more });
  }

  /** @param {Record<string, string | number | boolean>} more @param {AbortSignal} [signal] */
  #read(more, signal) {
    return get(this.#url(more), signal);
  }

  /** @param {AbortSignal} signal */
  async first(signal) {
    // Who comes back finds as many rows as before.
    const limit = Math.min(MOST_ROWS, Math.max(PAGE, this.visit.kept.rows));
    const page = await this.#read({ limit }, signal);
    this.rows = page.Jobs;
    this.token = page.NextToken;
    this.#fold(page.Jobs);
  }

  /** Folds equal failures among rows that come; rows that are shown never move. @param {Job[]} jobs */
  #fold(jobs) {
    for (const { job, others } of runsOfFailures(jobs)) {
      this.alike.set(job.ID, others.map(({ ID }) => ID));
    }
  }

  /** The rows without those that others stand for. */
  #shown() {
    const folded = new Set([...this.alike].flatMap(([id, others]) => this.open.has(id) ? [] : others));
    return this.rows.filter((job) => !folded.has(job.ID));
  }

  /** @param {string} id */
  #toggle(id) {
    if (!this.open.delete(id)) this.open.add(id);
    this.show();
  }

  /** Reads the rows on the page again, and counts the jobs that would stand above them. @param {AbortSignal} signal */
  async reload(signal) {
    const newest = this.filters.order === "newest";
    const top = this.rows[0].CreateTime;
    /** @type {Record<string, string>} */
    const window = newest && !this.filters.before ? { created_before: moment(top, MARGIN_NS) } : {};
    const limit = Math.max(PAGE, this.rows.length);
    const [page, above] = await Promise.all([
      this.#read({ limit, ...window }, signal),
      newest && !this.filters.before
        ? this.#read({ limit: COUNTED, created_after: moment(top, MARGIN_NS) }, signal)
        : null,
    ]);
    /** @type {Map<string, Job>} */
    const fresh = new Map(page.Jobs.map((/** @type {Job} */ job) => [job.ID, job]));
    const known = new Set(this.rows.map((job) => job.ID));
    const added = page.Jobs.filter((/** @type {Job} */ job) => !known.has(job.ID));
    // A short page has room below it; rows that others displaced are only announced.
    const append = !this.token && this.filters.order !== "changed" ? added : [];
    this.newCount = above ? above.Jobs.length : added.length - append.length;
    const absent = this.rows.filter((job) => !fresh.has(job.ID));
    const singles = await Promise.all(absent.slice(0, SINGLES).map((job) => this.#single(job, signal)));
    const found = new Map(singles.map((job) => [job.ID, job]));
    this.gone = new Set(absent.map((job) => job.ID));
    this.rows = this.rows.map((job) => fresh.get(job.ID) ?? found.get(job.ID) ?? job);
    this.rows.push(...append);
  }

  /** @param {Job} job @param {AbortSignal} signal @returns {Promise<Job>} */
  async #single(job, signal) {
    try {
      const { Job } = await get(path(["jobs", job.ID]), signal);
      const ended = ["Completed", "Failed", "Stopped"].includes(Job.State.StateType);
      return { ...job, State: Job.State, ModifyTime: Job.ModifyTime, EndTime: ended ? Job.ModifyTime : 0 };
    } catch (error) {
      if (signal.aborted) throw error;
      return job;
    }
  }

  show() {
    if (!this.rows.length) return fill(this.box, this.#nothing());
    if (!this.table.isConnected) fill(this.box, this.newerBox, this.table, this.more);
    reconcile(this.body, this.#shown(), (job) => job.ID, (job, before) =>
      jobRow(job, before, {
        alike: this.alike.get(job.ID)?.length ?? 0,
        open: this.open.has(job.ID),
        toggle: () => this.#toggle(job.ID),
        selected: this.selected.has(job.ID),
        gone: this.gone.has(job.ID),
        select: (on) => this.select(job.ID, on),
      }));
    this.visit.kept.rows = this.rows.length;
    this.newerBox.hidden = this.newCount === 0;
    const word = this.filters.order === "changed" ? "changed" : "new";
    say(
      this.newer,
      this.newCount >= COUNTED ? `More than ${COUNTED - 1} ${word}` : `${this.newCount} ${word}`,
    );
    this.#showMore();
    this.#showSelection();
  }

  #showMore() {
    if (!this.token) return fill(this.more);
    const last = this.rows[this.rows.length - 1];
    if (this.rows.length < MOST_ROWS || this.filters.order !== "newest") {
      return fill(
        this.more,
        h(
          "button",
          { type: "button", onclick: () => void this.next(), disabled: this.rows.length >= MOST_ROWS },
          this.rows.length >= MOST_ROWS
            ? `The first ${MOST_ROWS}; narrow the filters for others`
            : `Show ${PAGE} more`,
        ),
      );
    }
    const query = toQuery(this.filters);
    query.set("before", moment(last.CreateTime, 0));
    fill(this.more, h("a", { class: "button", href: `/jobs?${query}` }, "Continue on a new page"));
  }

  async next() {
    const button = this.more.querySelector("button");
    if (button) button.disabled = true;
    try {
      const page = await this.#read({ limit: PAGE, next_token: this.token }, this.listing.signal);
      const known = new Set(this.rows.map((job) => job.ID));
      const added = page.Jobs.filter((/** @type {Job} */ job) => !known.has(job.ID));
      this.rows.push(...added);
      this.token = page.NextToken;
      this.#fold(added);
      this.show();
    } catch (error) {
      if (!this.listing.signal.aborted) fill(this.more, failure(error, () => void this.next()));
    }
  }

  /** @param {string} id @param {boolean} on */
  select(id, on) {
    if (on) this.selected.add(id);
    else this.selected.delete(id);
    this.#showSelection();
  }

  selectAll() {
    this.selected = new Set(this.all.checked ? this.rows.map((job) => job.ID) : []);
    this.show();
  }

  #showSelection() {
    const chosen = this.rows.filter((job) => this.selected.has(job.ID));
    this.all.checked = chosen.length > 0 && chosen.length === this.rows.length;
    this.all.indeterminate = chosen.length > 0 && chosen.length < this.rows.length;
    if (!chosen.length) return fill(this.selection);
    const running = chosen.filter((job) => ["Pending", "Queued", "Running"].includes(job.State.StateType));
    fill(
      this.selection,
      h("span", { class: "muted" }, `${plural(chosen.length, "job")} selected`),
      h("button", {
        type: "button",
        class: "danger",
        disabled: !running.length,
        title: running.length ? "" : "All of them have ended",
        onclick: async () => {
          if (await stopJobs(running)) this.selected.clear();
          this.refresh();
        },
      }, "Stop…"),
    );
  }

  #nothing() {
    if (!this.filters.isNarrowed) {
      return empty(
        "No job yet",
        h("p", null, "Jobs that anyone submits appear here, newest first."),
        h("div", { class: "actions" }, submitButton()),
      );
    }
    return empty(
      "No job matches these filters",
      h("div", { class: "actions" }, h("a", { class: "button", href: "/jobs" }, "Clear the filters")),
    );
  }
}
