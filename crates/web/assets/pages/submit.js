// Submit: a job as a form or as text, checked by the service while one types.

import { ApiError, change, path } from "../api.js";
import { fill, h } from "../dom.js";
import { connection } from "../connection.js";
import { namespaceList } from "../jobs/namespaces.js";
import { describe, failure, inOneLine, loading, needsRole } from "../notes.js";
import { notify } from "../notice.js";
import { go } from "../router.js";
import { session } from "../session.js";
import { asCurl, asJobctl, resubmittable } from "../submit/copy.js";
import { bodyOf, inOwnLines, jobText, languageOf, newKey, parseJob, saveDraft } from "../submit/draft.js";
import { Editor } from "../submit/editor.js";
import { EXAMPLES } from "../submit/examples.js";
import { Form } from "../submit/form.js";
import { lineOf } from "../submit/locate.js";
import { chosenNodes, differences, problemList, warningList } from "../submit/outcome.js";
import { atHome, begin } from "../submit/start.js";
import { copyLines } from "../elements/copy.js";

/** @import { Json, Shown, Visit } from "../../types.d.ts" */
/** @import { Draft } from "../submit/draft.js" */

const PAUSE_MS = 350;

/** @param {Visit} visit @returns {Shown} */
export default function submit(visit) {
  const from = visit.query.get("from") ?? "";
  const body = h("div", null, loading());
  const title = h("h1", null, from ? "Edit and submit as new" : "Submit a job");
  const actions = h("div", { class: "actions" });
  const element = h("section", null, h("header", { class: "title" }, title, actions), body);
  if (!session.may("submit")) {
    fill(body, needsRole("Submitting needs", "submitter"));
    return { title: "Submit", element };
  }
  const start = () =>
    begin(from, visit.signal).then(({ draft, original, name }) => {
      const page = new SubmitPage(visit, draft, original);
      if (name) fill(title, `Edit ${name}, submit as new`);
      fill(actions, page.actions);
      fill(body, page.element);
    }).catch((error) => visit.signal.aborted || fill(body, failure(error, start)));
  void start();
  return { title: "Submit", element };
}

class SubmitPage {
  /** The job as the service would store it, of the last dry run. @type {Json} */ stored = null;
  checking = new AbortController();
  timer = 0;

  /** @param {Visit} visit @param {Draft} draft @param {Json} original */
  constructor(visit, draft, original) {
    this.visit = visit;
    this.draft = draft;
    this.original = original;
    this.form = new Form((job) => this.write(jobText(job)));
    this.editor = new Editor(draft.text, (text) => this.write(text));
    this.outcome = h("div", { class: "outcome", "aria-live": "polite" });
    this.changes = h("div");
    this.input = h("div");
    this.modes = h(
      "div",
      { class: "tabs", role: "tablist", "aria-label": "How to write the job" },
      ["form", "text"].map((mode) =>
        h("button", {
          type: "button",
          role: "tab",
          id: `mode-${mode}`,
          data: { mode },
          onclick: () => this.switchTo(/** @type {"form" | "text"} */ (mode)),
        }, mode === "form" ? "Form" : "JSON or YAML")
      ),
    );
    this.send = h(
      "button",
      { type: "button", class: "primary", onclick: () => void this.submit() },
      "Submit",
    );
    this.actions = [
      copyLines("submitting it", () => this.#lines(asCurl), () => this.#lines(asJobctl)),
      this.send,
    ];
    const examples = h(
      "div",
      { class: "examples" },
      EXAMPLES.map((example) =>
        h(
          "button",
          { type: "button", title: example.text, onclick: () => this.take(atHome(example.job)) },
          example.name,
        )
      ),
    );
    this.element = h(
      "div",
      { class: "submit" },
      h(
        "div",
        { class: "submit-input" },
        original
          ? null
          : h("div", { class: "toolbar" }, h("span", { class: "muted small" }, "Start from"), examples),
        this.modes,
        this.input,
        namespaceList("namespaces"),
      ),
      h("div", { class: "submit-outcome" }, this.outcome, this.changes),
    );
    visit.signal.addEventListener("abort", () => {
      this.checking.abort();
      clearTimeout(this.timer);
    });
    connection.addEventListener("back", () => this.check(), { signal: visit.signal });
    this.switchTo(draft.mode);
    this.check();
  }

  /** @param {(spec: Json) => string} build */
  #lines(build) {
    const spec = this.#job();
    if (!spec) notify("The text is not a job yet; its first problem is marked.", "failed");
    return spec && build(spec);
  }

  /** The job of the text; of YAML, as the service read it. @returns {Json} */
  #job() {
    if (languageOf(this.draft.text) === "yaml") return this.stored && resubmittable(this.stored);
    const parsed = parseJob(this.draft.text);
    return "job" in parsed ? parsed.job : null;
  }

  /** @param {Json} job */
  take(job) {
    this.draft.key = newKey();
    this.write(jobText(job));
    this.editor.set(this.draft.text);
    this.form.set(job);
  }

  /** @param {"form" | "text"} mode */
  switchTo(mode) {
    if (mode === "form") {
      const job = this.#job();
      if (!job || typeof job !== "object") {
        notify("The form needs a text without errors; its first problem is marked.", "failed");
        return;
      }
      this.form.set(job);
      fill(this.input, this.form.element);
    } else {
      this.editor.set(this.draft.text);
      fill(this.input, this.editor.element);
    }
    this.draft.mode = mode;
    for (const tab of this.modes.querySelectorAll("button")) {
      tab.setAttribute("aria-selected", String(tab.dataset.mode === mode));
    }
    saveDraft(this.draft);
    if (this.last) this.#showProblems(this.last);
  }

  /** @param {string} text */
  write(text) {
    if (text === this.draft.text) return;
    // Another text is another submission.
    this.draft = { ...this.draft, text, key: newKey() };
    saveDraft(this.draft);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.check(), PAUSE_MS);
  }

  /** Asks the service what it thinks of the text. */
  async check() {
    this.checking.abort();
    this.checking = new AbortController();
    const { signal } = this.checking;
    const { body, type } = bodyOf(this.draft.text);
    try {
      const answer = await change("PUT", path(["jobs"], { dry_run: true }), body, { signal, type });
      this.stored = answer.Job;
      this.#showProblems([]);
      fill(this.outcome, warningList(answer.Warnings ?? []), chosenNodes(answer));
      fill(this.changes, this.original ? differences(this.original, resubmittable(answer.Job)) : null);
    } catch (error) {
      if (signal.aborted) return;
      this.stored = null;
      if (error instanceof ApiError && error.status < 500) this.#refused(error);
      else fill(this.outcome, failure(error));
    }
  }

  /** @param {ApiError} error */
  #refused(error) {
    // The text is not at fault.
    if (error.status === 403) return fill(this.outcome, failure(error));
    const named = error.code === "NamespaceNotFound"
      ? [{ Path: "Namespace", Reason: inOneLine(error) }]
      : error.details.filter((detail) => typeof detail?.Path === "string");
    const reason = inOwnLines(error.message, bodyOf(this.draft.text).above);
    const line = /line (\d+)/.exec(reason);
    const last = this.draft.text.trimEnd().split("\n").length;
    this.#showProblems(
      named.length ? named : [{ Reason: reason, line: line ? Math.min(last, Number(line[1])) : undefined }],
    );
  }

  /** @type {{ Path?: string, Reason: string, line?: number }[] | null} */
  last = null;

  /** @param {{ Path?: string, Reason: string, line?: number }[]} problems */
  #showProblems(problems) {
    this.last = problems;
    const isJson = languageOf(this.draft.text) === "json";
    const placed = problems.map((problem) => ({
      ...problem,
      line: problem.line ?? (problem.Path && isJson ? lineOf(this.draft.text, problem.Path) : undefined),
    }));
    this.form.mark(
      this.draft.mode === "form"
        ? problems.filter((problem) => problem.Path).map((problem) => ({
          Path: problem.Path ?? "",
          Reason: problem.Reason,
        }))
        : [],
    );
    this.editor.mark(
      new Map(placed.filter((problem) => problem.line).map((problem) => [problem.line ?? 1, problem.Reason])),
    );
    if (!problems.length) return;
    fill(
      this.outcome,
      problemList(
        this.draft.mode === "form"
          ? problems.map((problem) => this.form.named(problem))
          : placed.map(({ line, ...problem }) =>
            line ? { ...problem, where: `Line ${line}`, goTo: () => this.editor.goTo(line) } : problem
          ),
      ),
    );
    fill(this.changes);
  }

  async submit() {
    clearTimeout(this.timer);
    this.send.disabled = true;
    const { body, type } = bodyOf(this.draft.text);
    try {
      const answer = await change("PUT", path(["jobs"]), body, {
        type,
        headers: { "Idempotency-Key": this.draft.key },
      });
      saveDraft(null);
      for (const warning of answer.Warnings ?? []) notify(warning, "waiting");
      notify("Submitted");
      go(`/jobs/${answer.JobID}`);
    } catch (error) {
      if (error instanceof ApiError && error.status < 500) this.#refused(error);
      else {notify(
          `${
            describe(error).text
          } Nothing is lost: submit again, the key makes sure that the job is stored once.`,
          "failed",
        );}
      this.send.disabled = false;
    }
  }
}
