// Fields of toolbars: a text that counts once one pauses, and a choice.

import { h } from "../dom.js";

const PAUSE_MS = 250;

/** @param {string} placeholder @param {string} label @param {string} value @param {string} type @param {(text: string) => void} changed */
export function typed(placeholder, label, value, type, changed) {
  let timer = 0;
  const input = h("input", {
    type,
    placeholder,
    "aria-label": label,
    title: label,
    value,
    autocomplete: "off",
    spellcheck: "false",
  });
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => changed(input.value.trim()), PAUSE_MS);
  });
  return input;
}

/** @param {string} label @param {[string, string][]} options @param {string} value @param {(value: string) => void} changed */
export function choice(label, options, value, changed) {
  const select = h(
    "select",
    { "aria-label": label, title: label },
    options.map(([option, word]) => h("option", { value: option, selected: option === value }, word)),
  );
  select.addEventListener("change", () => changed(select.value));
  return select;
}
