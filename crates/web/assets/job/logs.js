// The logs of a job: all executions interleaved, with a toolbar to narrow, search, follow and keep them.

import { path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { copyLines } from "../elements/copy.js";
import { LogView } from "../elements/log-view.js";
import { fill, h, say } from "../dom.js";
import { count, plural, short } from "../format.js";
import { icon } from "../icons.js";
import { LogBuffer } from "./log-buffer.js";
import { followLog } from "./log-stream.js";
import { logArguments } from "../lines.js";
import { failure } from "../notes.js";
import { prefer, preferences } from "../preferences.js";
import { choice } from "../elements/fields.js";
import { LogSearch } from "./log-search.js";

/** @import { TabContext } from "../pages/job.js" */
/** @import { Line } from "./log-buffer.js" */
/** @import { LogState } from "./log-stream.js" */

// The end of a long log is what one came for; the ring holds more than this, for what follows.
const TAIL = 20_000;
// Executions that are offered one by one.
const MOST_CHOICES = 200;

/** @type {[string, string][]} */
const STREAMS = [["", "Both streams"], ["stdout", "Standard output"], ["stderr", "Standard error"]];

const WORDS = {
  starting: "Reading…",
  reading: "Following",
  ended: "Complete",
  interrupted: "Interrupted; reading goes on by itself",
};

/** @param {TabContext} context */
export default function logs(context) {
  return new LogTab(context).element;
}

class LogTab {
  buffer = new LogBuffer();
  /** The order in which executions were seen decides their colours. @type {Map<string, { hue: number, label: string }>} */
  executions = new Map();
  view = new LogView(this.buffer, (id) => this.executions.get(id) ?? { hue: 0, label: "" });
  search = new LogSearch(this.buffer, this.view);
  stream = "";
  only = "";
  /** @type {Exclude<LogState, "restarted"> | "starting"} */
  state = "starting";

  /** @param {TabContext} context */
  constructor({ job, signal, query }) {
    this.job = job;
    this.asked = { jobId: job.ID, execution: query.get("execution") ?? "", tail: TAIL };
    this.status = h("p", { class: "log-status small muted", role: "status" });
    this.problem = h("div");
    this.view.wrap = preferences.wrap;
    this.view.times = preferences.times;
    this.chooser = h(
      "select",
      { "aria-label": "Execution", hidden: true },
      h("option", { value: "" }, "All executions"),
    );
    this.chooser.addEventListener("change", () => {
      this.only = this.chooser.value;
      this.refilter();
    });
    this.follow = h("button", { type: "button", onclick: () => this.view.follow(!this.view.follows) });
    this.view.onfollow = () => this.#showFollowing();
    this.element = h(
      "div",
      { class: "logs" },
      this.#toolbar(),
      this.#onlyOne(),
      this.problem,
      this.view.element,
      this.status,
    );
    signal.addEventListener("abort", () => this.view.close());
    this.#showFollowing();
    this.tell();
    void followLog(this.asked, signal, (lines) => this.take(lines), (state) => this.become(state));
  }

  #toolbar() {
    const url = path(["jobs", this.job.ID, "logs"], { order: "time", execution_id: this.asked.execution });
    const { view } = this;
    return h(
      "div",
      { class: "toolbar" },
      choice("Stream", STREAMS, this.stream, (value) => {
        this.stream = value;
        this.refilter();
      }),
      this.chooser,
      this.search.element,
      this.follow,
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
      h("a", { class: "button", href: url, download: `${this.job.Name}.log` }, icon("download"), "Download"),
      h(
        "a",
        { class: "button quiet", href: url, target: "_blank", rel: "noopener" },
        icon("link"),
        "Plain text",
      ),
      this.#copies(),
    );
  }

  /** All output of what is chosen, to the end of the job. */
  #copies() {
    const only = () => ({ execution: this.only || this.asked.execution, stream: this.stream });
    const url = () => {
      const { execution, stream } = only();
      return path(["jobs", this.job.ID, "logs"], {
        follow: true,
        order: "time",
        execution_id: execution,
        stream,
      });
    };
    return copyLines(
      "the logs",
      () => curl("GET", url(), { flags: ["-N"] }),
      () => jobctl(logArguments(this.job.ID, only())),
    );
  }

  #onlyOne() {
    if (!this.asked.execution) return null;
    const id = h("span", { class: "id" }, short(this.asked.execution));
    return h(
      "p",
      { class: "quiet-note" },
      "Only execution ",
      id,
      ". ",
      h("a", { href: `/jobs/${this.job.ID}/logs` }, "Show all executions"),
    );
  }

  #showFollowing() {
    const { follows } = this.view;
    fill(this.follow, icon(follows ? "done" : "download"), follows ? "Following" : "Follow the end");
    this.follow.setAttribute("aria-pressed", String(follows));
  }

  refilter() {
    this.buffer.show((line) =>
      (!this.only || line.execution === this.only) &&
      (!this.stream || line.stream === this.stream || line.stream === "service")
    );
    this.search.restart();
    this.view.relayout();
    this.tell();
  }

  /** @param {Omit<Line, "id">[]} lines */
  take(lines) {
    for (const line of lines) this.#learn(line);
    this.buffer.append(lines);
    this.view.appended();
    this.search.grown();
    this.tell();
  }

  /** @param {LogState} state */
  become(state) {
    if (state === "restarted") {
      this.buffer.clear();
      return this.search.restart();
    }
    this.state = state;
    fill(this.problem, typeof state === "object" ? failure(state.error) : null);
    this.tell();
  }

  /** @param {Omit<Line, "id">} line */
  #learn({ execution, index }) {
    if (!execution || this.executions.has(execution)) return;
    // The executions of ops and daemon jobs have one index, and are told apart by their IDs.
    const isIndexed = index !== undefined && !["ops", "daemon"].includes(this.job.Type);
    const label = isIndexed ? `[${index}]` : short(execution);
    this.executions.set(execution, { hue: index ?? this.executions.size, label });
    if (this.executions.size <= MOST_CHOICES) {
      const isRetry = [...this.executions].some(([id, other]) => id !== execution && other.label === label);
      const text = isRetry ? `${label} ${short(execution)}` : label;
      this.chooser.append(h("option", { value: execution, title: execution }, text));
    }
    if (this.executions.size !== 2) return;
    this.chooser.hidden = false;
    this.view.ids = true;
    this.view.relayout();
  }

  tell() {
    const { lines, total, visible } = this.buffer;
    const kept = lines.length < total
      ? `; the newest ${count(lines.length)} are kept here, the download has all`
      : total >= TAIL
      ? "; what came before the end is in the download"
      : "";
    const word = typeof this.state === "string" ? WORDS[this.state] : "Refused";
    say(this.status, `${word}. ${plural(total, "line")}${kept}.`);
    const nothing = this.state === "ended" ? "The job has printed nothing" : "Nothing printed yet";
    this.view.element.classList.toggle("is-empty", visible.length === 0);
    this.view.element.dataset.empty = total ? "No line matches the choice above" : nothing;
  }
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
