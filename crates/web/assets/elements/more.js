// What stands below a table that does not show all rows: a button for more, or where the others are.

import { fill, h } from "../dom.js";

/**
 * @param {HTMLElement} box
 * @param {{ hasMore: boolean, limit: number, page: number, most: number, beyond: string }} rows
 * @param {(limit: number) => void} raise
 */
export function moreRows(box, rows, raise) {
  if (!rows.hasMore) return fill(box);
  if (rows.limit >= rows.most) {
    return fill(box, h("p", { class: "muted" }, `The first ${rows.most}; ${rows.beyond}`));
  }
  const onclick = () => raise(Math.min(rows.most, rows.limit + rows.page));
  fill(box, h("button", { type: "button", onclick }, `Show ${rows.page} more`));
}
