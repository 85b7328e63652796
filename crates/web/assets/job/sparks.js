// What each execution of a table uses: a line over its life, and the numbers of now or of its end.

import { sparkline } from "../elements/chart.js";
import { fill, h } from "../dom.js";
import { bytes } from "../format.js";
import { isEndedExecution } from "../state.js";
import { coresText } from "./used.js";

/** @import { Execution, UsageAnswer, UsageCurve } from "../../types.d.ts" */

const FEWEST_VALUES = 3;

export class Sparks {
  /** @type {Map<string, UsageCurve>} */ #curves = new Map();
  /** @type {Map<string, Execution>} */ #rows = new Map();

  /** Takes what was read, and draws it into the cells that are shown. @param {UsageAnswer} answer @param {HTMLElement} table */
  take({ Executions = [] }, table) {
    for (const { ExecutionID: id, Curve } of Executions) {
      this.#curves.set(id, Curve);
      const row = this.#rows.get(id);
      const cell = row && table.querySelector(`[data-spark="${id}"]`);
      if (cell) this.#draw(cell, row);
    }
  }

  /** The cell of a row. @param {Execution} row */
  cell(row) {
    this.#rows.set(row.ID, row);
    const cell = h("span", { class: "spark-cell", data: { spark: row.ID } });
    this.#draw(cell, row);
    return cell;
  }

  /** @param {Element} cell @param {Execution} row */
  #draw(cell, { ID, Usage: usage, ComputeState }) {
    const curve = this.#curves.get(ID);
    if (!usage && !curve) return fill(cell, "–");
    const ended = isEndedExecution(ComputeState.StateType);
    const values = curve?.CPU ?? [];
    const cores = values.length ? values[values.length - 1] : usage?.CPU ?? 0;
    const memory = curve?.Memory.length ? curve.Memory[curve.Memory.length - 1] : usage?.Memory ?? 0;
    const text = ended && usage
      ? `peak ${bytes(usage.MemoryPeak)}`
      : `${coresText(cores)} · ${bytes(memory)}`;
    fill(
      cell,
      values.length >= FEWEST_VALUES ? sparkline(values, `CPU over time, ${text}`) : null,
      h("span", null, text),
    );
  }
}
