// The logs of a job: all executions interleaved, with a toolbar to narrow, search, follow and keep them.

import { path } from "../api.js";
import { LogView } from "../elements/log-view.js";
import { fill, h, say } from "../dom.js";
import { count, plural, short } from "../format.js";
import { icon } from "../icons.js";
import { KEPT, LogBuffer } from "./log-buffer.js";
import { followLog } from "./log-stream.js";
import { failure } from "../notes.js";
import { prefer, preferences } from "../preferences.js";
import { choice } from "../jobs/filters.js";
import { LogSearch } from "./log-search.js";

/** @import { TabContext } from "../pages/job.js" */
/** @import { LogState } from "./log-stream.js" */

// The end of a long log is what one came for; the ring holds more than this, for what follows.
const TAIL = 20_000;
// Executions that are offered one by one.
const MOST_CHOICES = 200;

/** @param {TabContext} context */
export default function logs({ job, signal, query }) {
  const buffer = new LogBuffer();
  /** @type {Map<string, number>} */
  const executions = new Map();
  const view = new LogView(buffer, (id) => executions.get(id) ?? 0);
  const asked = { jobId: job.ID, execution: query.get("execution") ?? "", tail: TAIL };
  let stream = "";
  let only = "";
  /** @type {Exclude<LogState, "restarted"> | "starting"} */
  let state = "starting";

  const status = h("p", { class: "log-status small muted", role: "status" });
  const problem = h("div");
  const chooser = h(
    "select",
    { "aria-label": "Execution", hidden: true },
    h("option", { value: "" }, "All executions"),
  );
  const follow = h("button", { type: "button" });
  const search = new LogSearch(buffer, view);
  view.wrap = preferences.wrap;
  view.times = preferences.times;

  const refilter = () => {
    buffer.show((line) =>
      (!only || line.execution === only) && (!stream || line.stream === stream || line.stream === "service")
    );
    search.restart();
    view.relayout();
    tell();
  };
  const tell = () => {
    const kept = buffer.lines.length < buffer.total
      ? `; the newest ${count(buffer.lines.length)} are kept here, the download has all`
      : buffer.total >= TAIL
      ? "; what came before the end is in the download"
      : "";
    const words = {
      starting: "Reading…",
      reading: "Following",
      ended: "Complete",
      interrupted: "Interrupted; reading goes on by itself",
    };
    say(
      status,
      `${typeof state === "string" ? words[state] : "Refused"}. ${plural(buffer.total, "line")}${kept}.`,
    );
    view.element.classList.toggle("is-empty", buffer.visible.length === 0);
    view.element.dataset.empty = buffer.total
      ? "No line matches the choice above"
      : state === "ended"
      ? "The job has printed nothing"
      : "Nothing printed yet";
  };
  const learn = (/** @type {string} */ execution) => {
    if (!execution || executions.has(execution)) return;
    executions.set(execution, executions.size);
    if (executions.size <= MOST_CHOICES) chooser.append(h("option", { value: execution }, short(execution)));
    if (executions.size === 2) {
      chooser.hidden = false;
      view.ids = true;
      view.relayout();
    }
  };
  view.onfollow = () => {
    fill(follow, icon(view.follows ? "done" : "download"), view.follows ? "Following" : "Follow the end");
    follow.setAttribute("aria-pressed", String(view.follows));
  };
  follow.addEventListener("click", () => view.follow(!view.follows));
  chooser.addEventListener("change", () => {
    only = chooser.value;
    refilter();
  });

  const plainUrl = (/** @type {Record<string, string>} */ more = {}) =>
    path(["jobs", job.ID, "logs"], { execution_id: asked.execution, ...more });
  const toolbar = h(
    "div",
    { class: "toolbar" },
    choice(
      "Stream",
      [["", "Both streams"], ["stdout", "Standard output"], ["stderr", "Standard error"]],
      stream,
      (value) => {
        stream = value;
        refilter();
      },
    ),
    chooser,
    search.element,
    follow,
    toggle("Wrap", view.wrap, (on) => {
      view.wrap = on;
      prefer({ wrap: on });
      view.relayout();
    }),
    toggle("Times", view.times, (on) => {
      view.times = on;
      prefer({ times: on });
      view.relayout();
    }),
    h("a", { class: "button", href: plainUrl(), download: `${job.Name}.log` }, icon("download"), "Download"),
    h(
      "a",
      { class: "button quiet", href: plainUrl(), target: "_blank", rel: "noopener" },
      icon("link"),
      "Plain text",
    ),
  );

  signal.addEventListener("abort", () => view.close());
  view.onfollow();
  tell();
  void followLog(asked, signal, (lines) => {
    for (const line of lines) learn(line.execution);
    buffer.append(lines);
    view.appended();
    search.grown();
    tell();
  }, (now) => {
    if (now === "restarted") {
      buffer.clear();
      return search.restart();
    }
    state = now;
    fill(problem, typeof now === "object" ? failure(now.error) : null);
    tell();
  });
  return h(
    "div",
    { class: "logs", data: { kept: KEPT } },
    toolbar,
    asked.execution
      ? h(
        "p",
        { class: "quiet-note" },
        "Only ",
        h("span", { class: "id" }, short(asked.execution)),
        ". ",
        h("a", { href: `/jobs/${job.ID}/logs` }, "Show all executions"),
      )
      : null,
    problem,
    view.element,
    status,
  );
}

/** @param {string} word @param {boolean} on @param {(on: boolean) => void} changed */
function toggle(word, on, changed) {
  let now = on;
  const button = h("button", { type: "button", "aria-pressed": String(on) }, word);
  button.addEventListener("click", () => {
    now = !now;
    button.setAttribute("aria-pressed", String(now));
    changed(now);
  });
  return button;
}
