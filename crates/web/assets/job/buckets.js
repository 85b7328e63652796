// What became of the indexes of a large array: a column for each range of them, which leads to its executions, and each index after some clicks.

import { get, path } from "../api.js";
import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { failure } from "../notes.js";
import { badge, executionLook } from "../state.js";
import { columns, focusColumn, redraw } from "./columns.js";

/** @import { Job, Slots } from "../../types.d.ts" */

// So many are told apart in the narrowest window.
const COLUMNS = 100;

const COMPLETED = 7;
const FAILED = 8;

/** The parts of a column, from the bottom up. @type {["Failed" | "Completed" | "Unfinished", string][]} */
const PARTS = [["Failed", "failed"], ["Completed", "completed"], ["Unfinished", "waiting"]];

/** Whether the reader comes here from a column, and goes on from the first one of the next picture. */
let goesOn = false;

/**
 * The picture of these indexes, or of all, and what reads it again.
 * @param {Job} job @param {string} indexes one, or `FIRST-LAST` @param {AbortSignal} signal
 */
export function buckets(job, indexes, signal) {
  const element = h("div", { class: "outcome-box" });
  const [from, to = from] = indexes ? indexes.split("-") : [];
  const refresh = async () => {
    try {
      const slots = await get(path(["jobs", job.ID, "slots"], { from, to, buckets: COLUMNS }), signal);
      redraw(element, picture(job, slots), legend(job, slots, indexes));
      if (goesOn) focusColumn(element, 0);
      goesOn = false;
    } catch (error) {
      if (!signal.aborted) fill(element, failure(error, () => void refresh()));
    }
  };
  return { element, refresh };
}

/** @param {Job} job @param {Slots} slots */
function picture(job, slots) {
  const links = slots.Buckets.map((bucket) => {
    const isOne = bucket.First === bucket.Last;
    const name = isOne ? `[${bucket.First}]` : `[${count(bucket.First)}] to [${count(bucket.Last)}]`;
    const said = PARTS.filter(([part]) => bucket[part]).map(([part, tone]) =>
      `${count(bucket[part])} ${tone === "waiting" ? "unfinished" : tone}`
    );
    const title = `${name}: ${said.join(", ")}`;
    const indexes = isOne ? bucket.First : `${bucket.First}-${bucket.Last}`;
    return h(
      "a",
      {
        href: `/jobs/${job.ID}?index=${indexes}`,
        title,
        "aria-label": title,
        onclick: () => goesOn = true,
      },
      PARTS.filter(([part]) => bucket[part]).map(([part, tone]) => {
        const box = h("b", { class: tone });
        box.style.flexGrow = String(bucket[part]);
        return box;
      }),
    );
  });
  return columns(`Outcomes of ranges of indexes: ${summary(slots)}`, "ranges", links);
}

/** @param {Job} job @param {Slots} slots @param {string} indexes */
function legend(job, slots, indexes) {
  const kinds = [
    badge({ ...executionLook(COMPLETED), word: `${count(slots.Completed)} completed` }),
    badge({ ...executionLook(FAILED), word: `${count(slots.Failed)} failed` }),
  ];
  const named = indexes.includes("-") ? `Indexes ${indexes.replace("-", " to ")}` : `Index ${indexes}`;
  return h(
    "p",
    { class: "legend small" },
    kinds,
    slots.Unfinished ? h("span", null, `${count(slots.Unfinished)} unfinished`) : null,
    indexes && h("a", { class: "button", href: `/jobs/${job.ID}` }, `${named}: show all`),
  );
}

/** @param {Slots} slots */
function summary({ Completed, Failed, Unfinished }) {
  return `${count(Completed)} completed, ${count(Failed)} failed, ${count(Unfinished)} unfinished`;
}
