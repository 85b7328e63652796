// One job: its state and message, why it waits, and the tabs with everything about it.

import { get, path } from "../api.js";
import { runTime, timeAgo, timed } from "../elements/clock.js";
import { idText } from "../elements/copy.js";
import { fill, h } from "../dom.js";
import { count, plural, short } from "../format.js";
import { keepFresh } from "../fresh.js";
import { dependencies } from "../job/dependencies.js";
import { failedPanel } from "../job/failed.js";
import { waitingPanel } from "../job/waiting.js";
import { OBVIOUS } from "../jobs/row.js";
import { rerunJob } from "../jobs/rerun.js";
import { stopJobs } from "../jobs/stop.js";
import { failure, loading, needsRole } from "../notes.js";
import { retitle } from "../router.js";
import { session } from "../session.js";
import { badge, isEnded, jobLook } from "../state.js";

/** @import { Counts, Explanation, Job, Shown, Visit } from "../../types.d.ts" */

/** @typedef {{ job: Job, signal: AbortSignal, query: URLSearchParams }} TabContext */
/** @typedef {{ default: (context: TabContext) => HTMLElement }} TabModule */

/** @type {[string, string, () => Promise<TabModule>][]} */
const TABS = [
  ["executions", "Executions", () => import("../job/executions.js")],
  ["timeline", "Timeline", () => import("../job/timeline.js")],
  ["logs", "Logs", () => import("../job/logs.js")],
  ["history", "History", () => import("../job/history.js")],
  ["results", "Results", () => import("../job/results.js")],
  ["specification", "Specification", () => import("../job/specification.js")],
];

/** Types of jobs that end by themselves, and can run again. */
const FINITE = ["batch", "ops"];

/** Characters of a list of failed indexes: some lines of the narrowest window. */
const MOST_INDEXES = 200;

/** Tabs with what jobs are given and what they print, and how each says whom it is for. @type {Record<string, string>} */
const CONTENT = {
  logs: "Logs need",
  results: "Results need",
  specification: "The specification needs",
};

/** @param {Visit} visit @returns {Shown} */
export default function page(visit) {
  const asked = visit.params.id;
  const head = h("div", null, loading());
  const tabs = h("nav", { class: "tabs", "aria-label": "About this job", hidden: true });
  const body = h("div", { class: "tab-body" });
  const element = h("section", null, head, tabs, body);
  /** @type {Job | null} */
  let job = null;
  let current = visit;
  let leaveTab = new AbortController();
  let openTab = "";

  const showTab = async () => {
    if (!job) return;
    const name = current.params.tab ?? "executions";
    const key = `${name}?${current.query}`;
    markTabs(tabs, job, name);
    if (key === openTab) return;
    openTab = key;
    leaveTab.abort();
    leaveTab = new AbortController();
    const { signal } = leaveTab;
    const found = TABS.find(([tab]) => tab === name);
    fill(body, loading());
    if (!found) return fill(body, failure(new Error(`a job has no tab called ${name}`)));
    if (CONTENT[name] && !session.may("submit", job.Namespace)) {
      return fill(body, needsRole(CONTENT[name], "submitter", job.Namespace));
    }
    try {
      const module = await found[2]();
      if (!signal.aborted) fill(body, module.default({ job, signal, query: current.query }));
    } catch (error) {
      openTab = "";
      if (!signal.aborted) fill(body, failure(error, () => void showTab()));
    }
  };
  visit.signal.addEventListener("abort", () => leaveTab.abort());

  const refresh = keepFresh({
    signal: visit.signal,
    cares: (change) =>
      job !== null && (change.jobs.has(job.ID) || (change.cluster && !isEnded(job.State.StateType))),
    load: async (signal) => {
      const { Job } = await get(path(["jobs", asked]), signal);
      const explanation = await get(path(["jobs", Job.ID, "explain"]), signal);
      return { Job, explanation };
    },
    show: ({ Job, explanation }) => {
      const isFirst = job === null;
      if (job && !isFirst && job.Revision > Job.Revision) return;
      job = Job;
      showHead(head, Job, explanation, () => refresh(), visit.signal);
      tabs.hidden = false;
      retitle(Job.Name);
      if (isFirst) void showTab();
    },
    fail: (error) => {
      if (tabs.hidden) {
        fill(head, h("header", { class: "title" }, h("h1", null, "Job ", asked)), failure(error, refresh));
      }
    },
  });

  return {
    title: `Job ${asked}`,
    element,
    update: (next) => {
      if (next.params.id !== asked && next.params.id !== job?.ID) return false;
      current = next;
      void showTab();
      return true;
    },
  };
}

/** @param {HTMLElement} tabs @param {Job} job @param {string} current */
function markTabs(tabs, { ID: id, Namespace }, current) {
  if (!tabs.children.length) {
    const seesOutput = session.may("submit", Namespace);
    fill(
      tabs,
      TABS.filter(([name]) => seesOutput || !["logs", "results"].includes(name)).map(([name, word]) =>
        h(
          "a",
          { href: name === "executions" ? `/jobs/${id}` : `/jobs/${id}/${name}`, data: { tab: name } },
          word,
        )
      ),
    );
  }
  for (const tab of tabs.querySelectorAll("a")) {
    if (tab.dataset.tab === current) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
}

/** @param {HTMLElement} head @param {Job} job @param {Explanation} explanation @param {() => void} refresh @param {AbortSignal} signal */
function showHead(head, job, explanation, refresh, signal) {
  const version = JSON.stringify([job.Revision, job.State, explanation]);
  if (head.dataset.version === version) return;
  const had = head.contains(document.activeElement)
    ? document.activeElement?.getAttribute("data-name")
    : null;
  head.dataset.version = version;
  const look = jobLook(job.State.StateType);
  const ended = isEnded(job.State.StateType);
  const labels = Object.entries(job.Labels);
  const changes = session.may("submit", job.Namespace);
  fill(
    head,
    h(
      "header",
      { class: "title" },
      h("h1", { tabindex: -1, data: { name: "title" } }, job.Name),
      badge(look, "pill"),
      idText(job.ID),
      changes && h(
        "div",
        { class: "actions" },
        h(
          "a",
          { class: "button", href: `/submit?from=${job.ID}`, data: { name: "edit" } },
          "Edit and submit as new",
        ),
        ended && FINITE.includes(job.Type) && h("button", {
          type: "button",
          data: { name: "rerun" },
          onclick: () => rerunJob(job),
        }, "Run again…"),
        ended ? null : h("button", {
          type: "button",
          class: "danger",
          data: { name: "stop" },
          onclick: async () => await stopJobs([job]) && refresh(),
        }, "Stop…"),
      ),
    ),
    h(
      "p",
      { class: "facts" },
      fact(job.Type, progressText(explanation.Executions)),
      fact("namespace", job.Namespace),
      fact("priority", String(job.Priority)),
      h("span", null, "submitted ", timeAgo(job.CreateTime)),
      rerunOf(job),
      ended
        ? h(
          "span",
          null,
          "ended ",
          timeAgo(job.ModifyTime),
          " after ",
          runTime(job.CreateTime, job.ModifyTime),
        )
        : null,
      labels.length
        ? h(
          "span",
          { class: "labels" },
          labels.map(([key, value]) => h("span", { class: "label" }, value ? `${key}=${value}` : key)),
        )
        : null,
    ),
    dependencies(job),
    message(job, explanation, signal),
    failedIndexes(job),
    ended ? null : waitingPanel(explanation),
  );
  const again = had && head.querySelector(`[data-name="${had}"]`);
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
}

/** How far the executions are, without what is zero. @param {Counts} counts */
function progressText(counts) {
  const parts = [
    counts.Waiting ? `${count(counts.Waiting)} waiting` : "",
    counts.Running ? `${count(counts.Running)} running` : "",
    counts.Completed ? `${count(counts.Completed)} completed` : "",
    counts.Failed ? plural(counts.Failed, "failure") : "",
  ].filter(Boolean);
  return `${plural(counts.Total, "execution")}${parts.length ? `: ${parts.join(", ")}` : ""}`;
}

/** The job whose indexes this one runs again. @param {Job} job */
function rerunOf({ Meta }) {
  const first = Meta?.["service.org/rerun-of"];
  return first ? h("span", null, "rerun of ", h("a", { href: `/jobs/${first}` }, short(first))) : null;
}

/** @param {string} word @param {string} value */
function fact(word, value) {
  return h("span", null, `${word} `, h("strong", null, value));
}

/** Which indexes of an array failed. @param {Job} job */
function failedIndexes({ State: { FailedCount, FailedIndexes }, Count }) {
  const indexes = FailedIndexes ?? "";
  // A rerun of one index has a Count of 1, and an ops job as well.
  if (!FailedCount || ((Count ?? 1) < 2 && indexes === "0")) return null;
  // The picture of the executions has the rest.
  const end = indexes.length > MOST_INDEXES ? indexes.lastIndexOf(",", MOST_INDEXES) : indexes.length;
  const listed = indexes.slice(0, end);
  return h(
    "p",
    { class: "wrap failed-indexes" },
    `${plural(FailedCount, "failed index", "failed indexes")}: `,
    h("code", null, listed.length < indexes.length ? `${listed},…` : indexes),
  );
}

/** The job's message, unless a panel says it in parts. @param {Job} job @param {Explanation} explanation @param {AbortSignal} signal */
function message(job, explanation, signal) {
  if (job.State.StateType === "Failed") return failedPanel(job, signal);
  const isGate = explanation.Gates.some(({ Message }) => Message === job.State.Message);
  if (OBVIOUS.test(job.State.Message) || explanation.Waiting || isGate) return null;
  return h("p", { class: "message" }, timed(job.State.Message));
}
