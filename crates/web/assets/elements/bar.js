// A bar that shows how much of a quantity is in use, with the numbers next to it.

import { h } from "../dom.js";

/** @param {number} used @param {number} most @param {(value: number) => string} text */
export function usage(used, most, text) {
  if (!most) return h("span", { class: "muted" }, "none");
  const part = Math.min(1, Math.max(0, used / most));
  const inner = h("span", { class: part > 0.95 ? "full" : "" });
  inner.style.width = `${part * 100}%`;
  return h(
    "span",
    { class: "usage" },
    h("span", { class: "small" }, ratio(text(Math.max(0, used)), text(most))),
    h("span", { class: "bar" }, inner),
  );
}

/** `1.5 of 4 GB`: the unit once, if it is the same. @param {string} used @param {string} most */
export function ratio(used, most) {
  const unit = / \S+$/.exec(most)?.[0] ?? "";
  return `${
    unit && used.endsWith(unit) ? used.slice(0, -unit.length) : used === "0 B" ? "0" : used
  } of ${most}`;
}
