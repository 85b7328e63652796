// What became of the indexes of a large array: a column for each range of them, and each index after some clicks.

import { get, path } from "../api.js";
import { fill, h } from "../dom.js";
import { count } from "../format.js";
import { failure } from "../notes.js";
import { badge, executionLook } from "../state.js";

/** @import { Job, Slots } from "../../types.d.ts" */

// So many are told apart in the narrowest window.
const COLUMNS = 100;

const COMPLETED = 7;
const FAILED = 8;

/** The parts of a column, from the bottom up. @type {["Failed" | "Completed" | "Unfinished", string][]} */
const PARTS = [["Failed", "failed"], ["Completed", "completed"], ["Unfinished", "waiting"]];

/**
 * The picture, and what reads it again.
 * @param {Job} job @param {AbortSignal} signal
 */
export function buckets(job, signal) {
  const element = h("div", { class: "outcome-box" });
  /** @type {{ from?: number, to?: number }} */
  let range = {};
  const refresh = async () => {
    const asked = range;
    try {
      const slots = await get(path(["jobs", job.ID, "slots"], { ...asked, buckets: COLUMNS }), signal);
      if (asked === range) fill(element, picture(slots, zoom), legend(slots, range, zoom));
    } catch (error) {
      if (!signal.aborted) fill(element, failure(error, () => void refresh()));
    }
  };
  const zoom = (/** @type {{ from?: number, to?: number }} */ next) => {
    range = next;
    void refresh();
  };
  return { element, refresh };
}

/** @param {Slots} slots @param {(range: { from?: number, to?: number }) => void} zoom */
function picture(slots, zoom) {
  const columns = slots.Buckets.map((bucket) => {
    const name = bucket.First === bucket.Last
      ? `[${bucket.First}]`
      : `[${count(bucket.First)}] to [${count(bucket.Last)}]`;
    const said = PARTS.filter(([part]) => bucket[part]).map(([part, tone]) =>
      `${count(bucket[part])} ${tone === "waiting" ? "unfinished" : tone}`
    );
    const column = h(
      "i",
      { title: `${name}: ${said.join(", ")}`, data: { first: bucket.First, last: bucket.Last } },
      PARTS.filter(([part]) => bucket[part]).map(([part, tone]) => {
        const box = h("b", { class: tone });
        box.style.flexGrow = String(bucket[part]);
        return box;
      }),
    );
    return column;
  });
  const box = h(
    "div",
    {
      class: "outcomes ranges",
      role: "img",
      "aria-label": `Outcomes of ranges of indexes: ${summary(slots)}`,
    },
    columns,
  );
  box.addEventListener("click", ({ target }) => {
    const column = target instanceof Element ? target.closest("i") : null;
    if (!column || column.dataset.first === column.dataset.last) return;
    zoom({ from: Number(column.dataset.first), to: Number(column.dataset.last) });
  });
  return box;
}

/** @param {Slots} slots @param {{ from?: number, to?: number }} range @param {(range: {}) => void} zoom */
function legend(slots, range, zoom) {
  const kinds = [
    badge({ ...executionLook(COMPLETED), word: `${count(slots.Completed)} completed` }),
    badge({ ...executionLook(FAILED), word: `${count(slots.Failed)} failed` }),
  ];
  return h(
    "p",
    { class: "legend small" },
    kinds,
    slots.Unfinished ? h("span", null, `${count(slots.Unfinished)} unfinished`) : null,
    range.to === undefined ? null : h(
      "button",
      { type: "button", onclick: () => zoom({}) },
      `Indexes ${count(range.from ?? 0)} to ${count(range.to)}: show all`,
    ),
  );
}

/** @param {Slots} slots */
function summary({ Completed, Failed, Unfinished }) {
  return `${count(Completed)} completed, ${count(Failed)} failed, ${count(Unfinished)} unfinished`;
}
