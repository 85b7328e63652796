// The outcomes of all executions of a job in one picture: a column for each index, as tall and coloured as it needs someone.

import { h } from "../dom.js";
import { nodeText } from "../names.js";
import { count, slotOf } from "../format.js";
import { badge, executionLook } from "../state.js";
import { columns } from "./columns.js";
import { lastAttempts } from "./order.js";

/** @import { Counts, Execution, Look } from "../../types.d.ts" */

// The rows themselves show two at a glance.
const FEWEST_COLUMNS = 3;

// So many fit into one line of the narrowest window.
const FEW_COLUMNS = 100;

/** Of more columns than this none could be told from the next. */
export const MOST_COLUMNS = 500;

/**
 * @param {Execution[]} rows all executions of the job, or some if there are more
 * @param {boolean} isPart @param {(id: string) => void} open
 */
export function outcomes(rows, isPart, open) {
  const last = lastAttempts(rows);
  if (last.length < FEWEST_COLUMNS || isPart) return null;
  /** @type {Map<string, { look: Look, times: number }>} */
  const kinds = new Map();
  for (const row of last) {
    const look = executionLook(row.ComputeState.StateType);
    const kind = kinds.get(look.word) ?? { look, times: 0 };
    kind.times += 1;
    kinds.set(look.word, kind);
  }
  const said = [...kinds.values()].map(({ look, times }) => `${count(times)} ${look.word.toLowerCase()}`);
  const links = last.slice(0, MOST_COLUMNS).map((row) => {
    const look = executionLook(row.ComputeState.StateType);
    const where = row.NodeID ? ` on ${nodeText(row.NodeID)}` : "";
    const title = `[${slotOf(row.Name)}] ${look.word}${where}`;
    const href = `/jobs/${row.JobID}?execution=${row.ID}`;
    const link = h("a", { class: look.tone, href, title, "aria-label": title });
    link.addEventListener("click", (event) => {
      if (event.metaKey || event.ctrlKey || event.shiftKey) return;
      event.preventDefault();
      open(row.ID);
    });
    return link;
  });
  const label = `Outcomes by index: ${said.join(", ")}`;
  const picture = columns(label, links.length <= FEW_COLUMNS ? "few" : "", links);
  return h(
    "div",
    { class: "outcome-box" },
    picture,
    h(
      "p",
      { class: "legend small" },
      [...kinds.values()].map(({ look, times }) =>
        badge({ ...look, word: `${count(times)} ${look.word.toLowerCase()}` })
      ),
    ),
  );
}
