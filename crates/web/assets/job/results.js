// What the executions of a job published, and how to get it.

import { all, path } from "../api.js";
import { curl, jobctl } from "../commands.js";
import { copyButton, copyLines, idText } from "../elements/copy.js";
import { timeAgo } from "../elements/clock.js";
import { fill, h } from "../dom.js";
import { short, slotOf } from "../format.js";
import { keepFresh } from "../fresh.js";
import { icon } from "../icons.js";
import { command, empty, failure, loading } from "../notes.js";

/** @import { Execution } from "../../types.d.ts" */
/** @import { TabContext } from "../pages/job.js" */

const MOST = 1000;

/** @param {TabContext} context */
export default function results({ job, signal }) {
  const box = h("div", null, loading());
  const refresh = keepFresh({
    signal,
    cares: (change) => change.jobs.has(job.ID),
    load: (signal) =>
      all(
        (token, limit) =>
          path(["jobs", job.ID, "executions"], { limit, next_token: token, order_by: "create_time" }),
        "Executions",
        MOST,
        signal,
      ),
    show: ({ rows, more }) => {
      const published = rows.filter((/** @type {Execution} */ row) => row.PublishedResult?.Type);
      if (!published.length) return fill(box, nothing(job));
      fill(
        box,
        h("div", { class: "toolbar" }, "All of them", copies("all results", job.ID, published, [])),
        table(published),
        more ? h("p", { class: "quiet-note" }, `Of the first ${MOST} executions.`) : null,
      );
    },
    fail: (error) => fill(box, failure(error, refresh)),
  });
  return box;
}

/**
 * Archives that their nodes keep are fetched; of others the record says where they are.
 * @param {string} what @param {string} job @param {Execution[]} rows @param {string[]} only for jobctl
 */
function copies(what, job, rows, only) {
  const kept = rows.filter((row) => row.PublishedResult.Type === "local");
  return copyLines(
    what,
    () =>
      kept.length
        ? kept.map((row) => curl("GET", archive(row), { flags: ["-o", archiveName(row)] })).join("\n")
        : curl("GET", path(["jobs", job, "results"])),
    () => jobctl(["get", job, ...only]),
  );
}

/** @param {Execution} row */
function archive(row) {
  return path(["executions", row.ID, "results"]);
}

/** @param {Execution} row */
function archiveName(row) {
  return `${short(row.ID)}.tar.gz`;
}

/** @param {import("../../types.d.ts").Job} job */
function nothing(job) {
  const task = job.Tasks?.[0];
  if (!task?.Publisher?.Type) {
    return empty(
      "This job publishes nothing",
      h("p", null, "A task with a Publisher keeps its result paths and its output, for instance:"),
      command(
        '"Publisher": {"Type": "local"}, "ResultPaths": [{"Name": "outputs", "Path": "/outputs"}]',
        "the lines",
      ),
    );
  }
  return empty(
    "Nothing is published yet",
    h("p", null, "Results appear here as soon as an execution has published them."),
  );
}

/** @param {Execution[]} rows */
function table(rows) {
  return h(
    "table",
    { "aria-label": "Results" },
    h(
      "thead",
      null,
      h("tr", null, ["Execution", "Published", "Where"].map((word) => h("th", { scope: "col" }, word))),
    ),
    h(
      "tbody",
      null,
      rows.map((row) =>
        h(
          "tr",
          null,
          h(
            "td",
            { class: "fit" },
            h(
              "a",
              { class: "main", href: `/jobs/${row.JobID}?execution=${row.ID}` },
              `[${slotOf(row.Name)}]`,
            ),
            " ",
            idText(row.ID),
          ),
          h(
            "td",
            { class: "fit" },
            row.PublishedResult.Type,
            " ",
            h("span", { class: "muted" }, timeAgo(row.ModifyTime)),
          ),
          h(
            "td",
            { class: "wrap" },
            where(row),
            copies(`the result of ${row.ID}`, row.JobID, [row], ["--execution", row.ID]),
          ),
        )
      ),
    ),
  );
}

/** @param {Execution} row */
function where(row) {
  const { Type, Params } = row.PublishedResult;
  if (Type === "local") {
    return h(
      "a",
      { class: "button", href: archive(row), download: archiveName(row) },
      icon("download"),
      "Download",
    );
  }
  const text = Type === "s3"
    ? `s3://${Params?.Bucket}/${Params?.Key}`
    : Type === "ipfs"
    ? `ipfs://${Params?.CID}`
    : JSON.stringify(Params);
  return h("span", null, h("code", null, text), copyButton(() => text, "Copy where it is"));
}
