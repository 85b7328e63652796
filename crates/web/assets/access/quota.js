// Quotas of namespaces: what their jobs hold, of what they may hold.

import { h } from "../dom.js";
import { bytes } from "../format.js";

/** @import { Namespace, Quota } from "../../types.d.ts" */

/**
 * The bounds of a quota, in the order of the form: key, label, placeholder and flag.
 * @type {[keyof Quota, string, string, string][]}
 */
export const BOUNDS = [
  ["CPU", "CPU", "16 or 500m", "--quota-cpu"],
  ["Memory", "Memory", "64GB", "--quota-memory"],
  ["GPU", "GPUs", "2", "--quota-gpu"],
  ["Executions", "Live executions", "100", "--quota-executions"],
  ["QueuedExecutions", "Waiting executions", "10000", "--quota-queued"],
];

/** What is used of each bound, in words. @param {Pick<Namespace, "Quota" | "Usage">} namespace */
export function usedOfQuota({ Quota, Usage }) {
  return BOUNDS.flatMap(([key, label]) => {
    const most = Quota?.[key];
    if (most === undefined) return [];
    const used = key === "Memory" ? bytes(Usage.Memory) : `${Usage[key]}`;
    return [`${label}: ${used} of ${most}`];
  });
}

/** What part of the cluster its jobs hold, and its weight, in words. @param {Pick<Namespace, "Usage" | "Weight">} namespace */
export function shareText({ Usage, Weight }) {
  const share = `${(Usage.Share * 100).toFixed(1)} % of the cluster`;
  return Weight === 1 ? share : `${share}, weight ${Weight}`;
}

/** @param {Quota | undefined} quota */
export function quotaArguments(quota) {
  return BOUNDS.flatMap(([key, , , flag]) => quota?.[key] === undefined ? [] : [flag, `${quota[key]}`]);
}

/** The inputs of a form, and what they say. @param {Quota | undefined} before */
export function quotaInputs(before) {
  const inputs = BOUNDS.map(([key, label, placeholder]) => {
    const isNumber = key === "Executions" || key === "QueuedExecutions";
    const value = before?.[key] === undefined ? "" : `${before[key]}`;
    const input = h("input", {
      type: isNumber ? "number" : "text",
      ...(isNumber ? { min: 0 } : {}),
      autocomplete: "off",
      placeholder: `no bound, or ${placeholder}`,
      value,
    });
    return { key, label, input, isNumber };
  });
  const read = () => {
    const given = inputs.filter(({ input }) => input.value.trim() !== "");
    const bounds = given.map(({ key, input, isNumber }) => {
      const text = input.value.trim();
      return [key, isNumber ? Number(text) : text];
    });
    return bounds.length ? /** @type {Quota} */ (Object.fromEntries(bounds)) : undefined;
  };
  return { inputs, read };
}
