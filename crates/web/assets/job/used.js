// What an execution uses of what it may use, as one line.

import { bytes } from "../format.js";
import { isEndedExecution } from "../state.js";

/** @import { Execution } from "../../types.d.ts" */

/** Cores with as many digits as a small share of one needs: `0.002`, `1.5`. @param {number} value */
export function coreText(value) {
  return String(value < 1 ? Math.round(value * 1000) / 1000 : Math.round(value * 100) / 100);
}

/** `0.5 cores`, `1 core`. @param {number} value */
export function coresText(value) {
  const text = coreText(value);
  return `${text} ${text === "1" ? "core" : "cores"}`;
}

/** `1.9 of 128 MB`: the unit once, if it is the same. @param {string} used @param {string} most */
export function ofText(used, most) {
  const unit = / \S+$/.exec(most)?.[0] ?? "";
  const isSame = unit && (used.endsWith(unit) || / cores?$/.test(used));
  return `${isSame ? used.replace(/ \S+$/, "") : used} of ${most}`;
}

/**
 * `CPU 0.002 of 0.2 cores · 1.9 of 128 MB, peak 3.7 MB`; of what has ended, the time and the peak.
 * @param {Pick<Execution, "Usage" | "AllocatedResources" | "ComputeState">} row
 */
export function usedText({ Usage: usage, AllocatedResources, ComputeState }) {
  if (!usage) return "";
  const [given] = Object.values(AllocatedResources?.Tasks ?? {});
  const within = (/** @type {number} */ used, /** @type {number | undefined} */ most) =>
    most ? ofText(bytes(used), bytes(most)) : bytes(used);
  const disk = usage.Disk ? ` · ${within(usage.Disk, given?.Disk)} disk` : "";
  if (isEndedExecution(ComputeState.StateType)) {
    return `${seconds(usage.CPUSeconds)} s of CPU time · memory peak ${
      within(usage.MemoryPeak, given?.Memory)
    }${disk}`;
  }
  const cpu = given?.CPU ? ofText(coresText(usage.CPU), coresText(given.CPU)) : coresText(usage.CPU);
  return `CPU ${cpu} · ${within(usage.Memory, given?.Memory)}, peak ${bytes(usage.MemoryPeak)}${disk}`;
}

/** @param {number} value */
function seconds(value) {
  return value < 10 ? String(Math.round(value * 100) / 100) : String(Math.round(value));
}
