// Overview: how busy the cluster is, what waits, what failed, and which nodes are away.

import { get, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { shareText, usedOfQuota } from "../access/quota.js";
import { ratio } from "../elements/bar.js";
import { isEnough, loadCharts } from "../elements/load.js";
import { timeAgo, timed } from "../elements/clock.js";
import { copyLines, idText } from "../elements/copy.js";
import { fill, h } from "../dom.js";
import { bytes, cores, count, nodeName, plural } from "../format.js";
import { keepFresh } from "../fresh.js";
import { alikeJobs } from "../jobs/alike.js";
import { joinCommands } from "../join.js";
import { empty, failure, loading } from "../notes.js";
import { session } from "../session.js";
import { badge, JOB_STATES, jobLook, nodeLook } from "../state.js";

/** @import { Cluster, Job, Namespace, NodeRecord, Resources, Shown, Visit } from "../../types.d.ts" */

const ROWS = 5;
// So many failures are read to show equal ones as one row.
const FAILURES = 50;
const LOAD_EVERY_MS = 30_000;
// A service that has just started has a sample more after this time.
const SAMPLE_MS = 10_000;
// Of these the picture shows the first; those that need someone come first.
const MOST_NODES = 1000;
const DRAWN_NODES = 200;

/** @param {Visit} visit @returns {Shown} */
export default function overview(visit) {
  const { signal } = visit;
  const body = h("div", null, loading());
  const element = h(
    "section",
    null,
    h(
      "header",
      { class: "title" },
      h("h1", null, "Overview"),
      h(
        "div",
        { class: "actions" },
        copyLines("the figures", () => curl("GET", path(["cluster"])), () => jobctl(["cluster"])),
        session.may("submit") ? h("a", { class: "button primary", href: "/submit" }, "Submit a job") : null,
      ),
    ),
    body,
  );
  /** @type {ReturnType<typeof layout> | null} */
  let parts = null;

  const refresh = keepFresh({
    signal,
    cares: (change) => change.cluster || change.jobs.size > 0,
    load: async (signal) => {
      const list = (/** @type {Record<string, string | number | boolean>} */ query) =>
        get(path(["jobs"], { view: "summary", namespace: "*", limit: ROWS, ...query }), signal);
      const [cluster, waiting, failed, namespaces] = await Promise.all([
        get(path(["cluster"]), signal),
        list({ state: "Queued,Pending" }),
        list({ state: "Failed", order_by: "modify_time", reverse: true, limit: FAILURES }),
        get(path(["namespaces"]), signal),
      ]);
      return {
        cluster,
        waiting: waiting.Jobs,
        failed: failed.Jobs,
        namespaces: namespaces.Namespaces,
      };
    },
    show: (data) => {
      if (!parts) {
        parts = layout(signal);
        fill(body, ...parts.all);
      }
      showNumbers(parts, data.cluster);
      showWaiting(parts.waiting, data.waiting, data.cluster);
      showFailed(parts.failed, data.failed);
      showQuotas(parts.quotas, data.namespaces);
    },
    fail: (error) => parts ? undefined : fill(body, failure(error, refresh)),
  });
  return { title: "Overview", element };
}

/** @param {AbortSignal} signal */
function layout(signal) {
  const numbers = h("div", { class: "numbers" });
  const bars = h("div", { class: "bars" });
  const waiting = h("div");
  const failed = h("div");
  const nodes = h("div");
  const quotas = h("div");
  const chart = h("div", { class: "section" });
  showLoad(chart, signal);
  // Nodes change less often than jobs, and their records are larger.
  const again = keepFresh({
    signal,
    cares: (change) => change.nodes.size > 0,
    load: (signal) => get(path(["nodes"], { limit: MOST_NODES }), signal),
    show: (page) => showNodes(nodes, page.Nodes, page.NextToken !== ""),
    fail: (error) => fill(nodes, failure(error, again)),
  });
  return {
    numbers,
    bars,
    waiting,
    failed,
    quotas,
    all: [
      numbers,
      h(
        "div",
        { class: "columns" },
        section("Capacity in use", bars),
        section("Nodes", nodes, "All nodes", "/nodes"),
      ),
      quotas,
      chart,
      h(
        "div",
        { class: "columns" },
        section(
          "Waiting longest",
          waiting,
          "All waiting",
          "/jobs?state=Queued,Pending&order=oldest&namespace=*",
        ),
        section("Latest failures", failed, "All failed", "/jobs?state=Failed&order=changed&namespace=*"),
      ),
    ],
  };
}

/** @param {string} title @param {HTMLElement} body @param {string} [all] @param {string} [href] */
function section(title, body, all, href) {
  const link = all ? h("a", { class: "end small", href }, all) : null;
  return h("section", { class: "section" }, h("header", null, h("h2", null, title), link), body);
}

/** What namespaces use, of those that have a quota or hold a part of the cluster. @param {HTMLElement} box @param {Namespace[]} namespaces */
function showQuotas(box, namespaces) {
  const rows = namespaces.flatMap((namespace) => {
    const used = usedOfQuota(namespace);
    if (!used.length && namespace.Usage.Share === 0) return [];
    const href = `/jobs?namespace=${encodeURIComponent(namespace.Name)}`;
    return [
      h(
        "p",
        { class: "small wrap" },
        h("a", { href }, namespace.Name),
        ` uses ${[...used, shareText(namespace)].join(", ")}`,
      ),
    ];
  });
  fill(box, rows.length ? section("Namespaces", h("div", null, rows)) : null);
}

/** @param {{ numbers: HTMLElement, bars: HTMLElement }} parts @param {Cluster} cluster */
function showNumbers(parts, cluster) {
  const nodes = cluster.Nodes;
  const away = nodes.Disconnected ?? 0;
  fill(
    parts.numbers,
    JOB_STATES.map((state) => {
      const look = jobLook(state);
      return h(
        "a",
        { class: "figure", href: `/jobs?state=${state}&namespace=*` },
        badge(look),
        h("strong", null, count(cluster.Jobs[state] ?? 0)),
      );
    }),
    h(
      "a",
      { class: "figure", href: "/nodes" },
      badge(
        away || nodes.Pending || !nodes.Total
          ? { word: "Nodes", tone: "attention", icon: "warning" }
          : { word: "Nodes", tone: "completed", icon: "nodes" },
      ),
      h("strong", null, `${count(nodes.Connected ?? 0)} of ${count(nodes.Total ?? 0)}`),
    ),
  );
  fill(
    parts.bars,
    bar("CPU", cluster, "CPU", (value) => `${cores(value)} cores`),
    bar("Memory", cluster, "Memory", bytes),
    bar("Disk", cluster, "Disk", bytes),
    cluster.Capacity.GPU ? bar("GPU", cluster, "GPU", String) : null,
    h(
      "p",
      { class: "muted small" },
      `${plural(cluster.Executions.Running, "execution")} running, ${
        count(cluster.Executions.Starting)
      } starting`,
    ),
  );
}

/** @param {string} name @param {Cluster} cluster @param {keyof Resources} key @param {(value: number) => string} text */
function bar(name, cluster, key, text) {
  const most = cluster.Capacity[key];
  const used = cluster.Allocated[key];
  const part = most ? Math.min(1, used / most) : 0;
  const fillBar = h("span", { class: part > 0.95 ? "full" : "" });
  fillBar.style.width = `${part * 100}%`;
  return h(
    "div",
    { class: "capacity" },
    h("span", null, name),
    h("span", { class: "bar" }, fillBar),
    h(
      "span",
      { class: "muted" },
      most ? ratio(text(used), text(most)) : "none",
    ),
  );
}

/** @param {HTMLElement} box @param {AbortSignal} signal */
function showLoad(box, signal) {
  let span = "1h";
  let soon = 0;
  const plot = h("div", { class: "plot columns" });
  const choice = (/** @type {string} */ value, /** @type {string} */ word) =>
    h("button", {
      type: "button",
      class: "quiet",
      "aria-pressed": String(span === value),
      onclick: () => {
        span = value;
        for (const button of buttons) {
          button.setAttribute("aria-pressed", String(button.textContent === word));
        }
        void draw();
      },
    }, word);
  const buttons = [choice("1h", "1 hour"), choice("24h", "24 hours")];
  const draw = async () => {
    try {
      const load = await get(path(["cluster", "load"], { since: span }), signal);
      if (signal.aborted) return;
      fill(plot, ...loadCharts(load.Samples, span === "1h" ? 3600 : 86_400));
      clearTimeout(soon);
      if (!isEnough(load.Samples)) soon = setTimeout(drawIfSeen, SAMPLE_MS);
    } catch (error) {
      if (!signal.aborted && !plot.querySelector("svg")) {
        fill(plot, h("p", { class: "muted" }, /** @type {Error} */ (error).message));
      }
    }
  };
  fill(box, h("header", null, h("h2", null, "Load"), h("div", { class: "choices end" }, buttons)), plot);
  const drawIfSeen = () => document.hidden || void draw();
  const timer = setInterval(drawIfSeen, LOAD_EVERY_MS);
  signal.addEventListener("abort", () => {
    clearInterval(timer);
    clearTimeout(soon);
  });
  void draw();
}

/** @param {HTMLElement} box @param {Job[]} jobs @param {Cluster} cluster */
function showWaiting(box, jobs, cluster) {
  if (!jobs.length) return fill(box, h("p", { class: "quiet-note" }, `Nothing waits${within()}.`));
  const waiting = (cluster.Jobs.Queued ?? 0) + (cluster.Jobs.Pending ?? 0);
  fill(
    box,
    jobTable("Jobs that wait", jobs, "Since", (job) => job.CreateTime),
    waiting > jobs.length
      ? h("p", { class: "quiet-note" }, `${plural(waiting, "job")} in all${within() ? " namespaces" : ""}.`)
      : null,
  );
}

/** The figures count the whole cluster, but lists hold only what the reader may see. */
function within() {
  return session.who.Namespaces.includes("*") ? "" : " in your namespaces";
}

/** @param {HTMLElement} box @param {Job[]} jobs */
function showFailed(box, jobs) {
  if (!jobs.length) return fill(box, h("p", { class: "quiet-note" }, `Nothing has failed${within()}.`));
  const groups = alikeJobs(jobs).slice(0, ROWS);
  const others = new Map(groups.map(({ job, others }) => [job.ID, others]));
  fill(
    box,
    jobTable(
      "Jobs that failed",
      groups.map(({ job }) => job),
      "When",
      (job) => job.EndTime || job.ModifyTime,
      (job) => otherFailures(job, others.get(job.ID) ?? []),
    ),
  );
}

/** @param {Job} job @param {Job[]} others */
function otherFailures(job, others) {
  if (!others.length) return null;
  const isSame = others.every(({ Name }) => Name === job.Name);
  const query = new URLSearchParams({
    ...(isSame ? { name_prefix: job.Name } : {}),
    state: "Failed",
    order: "changed",
    namespace: job.Namespace,
  });
  const text = `${plural(others.length, "other job", "other jobs")} failed in the same way`;
  return h("p", { class: "small" }, h("a", { href: `/jobs?${query}` }, text));
}

/**
 * @param {string} caption @param {Job[]} jobs @param {string} when @param {(job: Job) => number} time
 * @param {(job: Job) => HTMLElement | null} [more]
 */
function jobTable(caption, jobs, when, time, more) {
  return h(
    "table",
    { "aria-label": caption },
    h("thead", { class: "hidden-text" }, h("tr", null, h("th", null, "Job"), h("th", null, when))),
    h(
      "tbody",
      null,
      jobs.map((job) =>
        h(
          "tr",
          null,
          h(
            "td",
            null,
            h("a", { class: "main", href: `/jobs/${job.ID}` }, job.Name),
            " ",
            idText(job.ID),
            h("p", { class: "reason" }, timed(job.State.Message)),
            more?.(job),
          ),
          h("td", { class: "number muted" }, timeAgo(time(job))),
        )
      ),
    ),
  );
}

/** @param {HTMLElement} box @param {NodeRecord[]} nodes @param {boolean} more */
function showNodes(box, nodes, more) {
  const compute = nodes.filter((node) => node.NodeType !== "Requester");
  if (!compute.length) {
    const text = "Jobs wait until a node runs them. Start an agent on any machine:";
    return fill(box, empty("No node has joined", h("p", null, text), joinCommands()));
  }
  const needs = (/** @type {NodeRecord} */ node) => nodeLook(node).tone === "attention";
  const away = compute.filter(needs);
  const drawn = [...away, ...compute.filter((node) => !needs(node))].slice(0, DRAWN_NODES);
  const known = `${more ? "the first " : ""}${plural(compute.length, "node")}`;
  const said = away.length
    ? `${count(away.length)} of ${known} ${away.length === 1 ? "needs" : "need"} someone.`
    : `${known}, all well.`;
  fill(
    box,
    h("p", { class: "quiet-note" }, said),
    h("ul", { class: "node-grid" }, drawn.map((node) => h("li", null, nodeLink(node)))),
    compute.length > drawn.length
      ? h(
        "p",
        { class: "quiet-note" },
        h("a", { href: "/nodes" }, `${count(compute.length - drawn.length)} more`),
      )
      : null,
  );
}

/** @param {NodeRecord} node */
function nodeLink(node) {
  const look = nodeLook(node);
  const name = nodeName(node);
  const title = `${name}: ${look.word}`;
  return h("a", { href: `/nodes/${node.PeerInfo.ID}`, title }, badge({ ...look, word: name }));
}
