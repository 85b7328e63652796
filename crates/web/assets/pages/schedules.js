// Schedules: when each is due next, and what became of the last time; for one of them all runs, with the reasons.

import { change, get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { fill, h, tableHead } from "../dom.js";
import { timeAgo } from "../elements/clock.js";
import { copyLines } from "../elements/copy.js";
import { keepFresh } from "../fresh.js";
import { jobLink } from "../names.js";
import { empty, failure, inOneLine, loading } from "../notes.js";
import { notify } from "../notice.js";
import { retitle } from "../router.js";
import { session } from "../session.js";
import { absolute, millis } from "../time.js";

/** @import { Schedule, ScheduleRun, Shown, Visit } from "../../types.d.ts" */

const TITLE = "Schedules";
const OFTEN_MS = 10_000;

// Those of all namespaces that the reader sees.
const EVERYWHERE = { namespace: "*" };

/** @param {Visit} visit @returns {Shown} */
export default function page(visit) {
  const { namespace, name } = visit.params;
  return name ? one(visit, namespace, name) : list(visit);
}

/** @param {Visit} visit @returns {Shown} */
function list({ signal }) {
  const body = h("div", null, loading());
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) => get(path(["schedules"], EVERYWHERE), signal),
    show: ({ Schedules }) => fill(body, Schedules.length ? table(Schedules) : none()),
    fail: (error) => fill(body, failure(error, refresh)),
  });
  often(signal, refresh);
  const copies = copyLines(
    "the list of schedules",
    () => curl("GET", path(["schedules"], EVERYWHERE)),
    () => jobctl(["schedule", "list", "--namespace", "*"]),
  );
  const head = h("header", { class: "title" }, h("h1", null, TITLE), copies);
  return { title: TITLE, element: h("section", null, head, body) };
}

function none() {
  return empty(
    "No schedules",
    h(
      "p",
      null,
      "A schedule starts a job at the times of a cron expression. An owner creates one with ",
      h("code", null, "jobctl schedule put"),
      ".",
    ),
  );
}

/** @param {Schedule[]} schedules */
function table(schedules) {
  const row = (/** @type {Schedule} */ schedule) => {
    const { Name, Namespace, Cron, TimeZone, LastRun } = schedule;
    return h(
      "tr",
      null,
      h(
        "td",
        null,
        h("a", { class: "wrap", href: `/schedules/${Namespace}/${Name}` }, Name),
        h("p", { class: "narrow row-facts small muted" }, h("span", { class: "wrap" }, `in ${Namespace}`)),
      ),
      h("td", { class: "mid wrap" }, Namespace),
      h("td", { class: "mid" }, h("code", null, Cron), " ", h("span", { class: "muted" }, TimeZone)),
      h("td", null, nextOf(schedule)),
      h("td", null, LastRun ? [LastRun.Outcome, " ", timeAgo(LastRun.ScheduledTime)] : "none yet"),
    );
  };
  return h(
    "table",
    { "aria-label": TITLE },
    tableHead(["", "Name"], ["mid", "Namespace"], ["mid", "Due"], ["", "Next"], ["", "Last run"]),
    h("tbody", null, schedules.map(row)),
  );
}

/** @param {Visit} visit @param {string} namespace @param {string} name @returns {Shown} */
function one({ signal }, namespace, name) {
  const query = { namespace };
  const box = h("div", null, loading());
  const refresh = keepFresh({
    signal,
    cares: () => false,
    load: (signal) =>
      Promise.all([
        get(path(["schedules", name], query), signal),
        get(path(["schedules", name, "runs"], query), signal),
      ]),
    show: ([{ Schedule }, { Runs }]) => {
      retitle(name);
      fill(box, facts(Schedule), runs(Runs));
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  often(signal, refresh);
  const trigger = h("button", { type: "button" }, "Start a job now");
  trigger.onclick = async () => {
    trigger.disabled = true;
    try {
      await change("POST", path(["schedules", name, "trigger"], query));
      notify(`Schedule ${name} has started a job`);
      refresh();
    } catch (error) {
      notify(inOneLine(error));
    } finally {
      trigger.disabled = false;
    }
  };
  const copies = copyLines(
    "the schedule",
    () => curl("GET", path(["schedules", name], query)),
    () => jobctl(["schedule", "describe", name, "--namespace", namespace]),
  );
  const actions = h(
    "div",
    { class: "actions end" },
    session.may("submit", namespace) ? trigger : null,
    copies,
  );
  const head = h("header", { class: "title" }, h("h1", null, "Schedule ", name), actions);
  return { title: `Schedule ${name}`, element: h("section", null, head, box) };
}

/** @param {Schedule} schedule */
function facts(schedule) {
  const { Namespace, Cron, TimeZone, Overlap, CatchUp, NextTimes, Queued } = schedule;
  /** @type {[string, string | HTMLElement][]} */
  const rows = [
    ["Namespace", Namespace],
    ["Due", h("span", null, h("code", null, Cron), ` in ${TimeZone}`)],
    ["If an earlier job is not over", Overlap],
    ["After an absence", CatchUp],
  ];
  if (Queued) rows.push(["Waiting runs", String(Queued)]);
  const times = NextTimes.map((time) => h("li", null, absolute(millis(time))));
  return h(
    "section",
    { class: "section" },
    h("header", null, h("h2", null, "Next times")),
    NextTimes.length ? h("ol", null, times) : h("p", null, nextOf(schedule)),
    h(
      "dl",
      { class: "facts" },
      rows.map(([word, value]) => h("div", null, h("dt", null, word), h("dd", null, value))),
    ),
  );
}

/** @param {ScheduleRun[]} shown */
function runs(shown) {
  const row = (/** @type {ScheduleRun} */ run) =>
    h(
      "tr",
      null,
      h("td", null, absolute(millis(run.ScheduledTime))),
      h("td", null, run.Outcome, run.Triggered ? h("span", { class: "muted" }, " (triggered)") : null),
      h("td", { class: "wrap" }, run.JobID ? jobLink(run.JobID) : run.Reason ?? ""),
    );
  const table = h(
    "table",
    { "aria-label": "Runs" },
    tableHead(["", "Scheduled for"], ["", "Outcome"], ["", "Job, or why there is none"]),
    h("tbody", null, shown.map(row)),
  );
  return h(
    "section",
    { class: "section" },
    h("header", null, h("h2", null, "Last runs")),
    shown.length ? table : empty("No runs yet"),
  );
}

/** @param {Schedule} schedule */
function nextOf({ NextTimes, Paused }) {
  if (Paused) return "paused";
  return NextTimes.length ? absolute(millis(NextTimes[0])) : "never";
}

/** What is due changes without a notice. @param {AbortSignal} signal @param {() => void} refresh */
function often(signal, refresh) {
  const beat = setInterval(() => document.hidden || refresh(), OFTEN_MS);
  signal.addEventListener("abort", () => clearInterval(beat));
}
