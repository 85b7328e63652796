// The text of a job with line numbers; lines with a problem are marked.

import { fill, h } from "../dom.js";

const LINE_PX = 18;

export class Editor {
  /** @param {string} text @param {(text: string) => void} changed */
  constructor(text, changed) {
    this.gutter = h("div", { class: "gutter", "aria-hidden": "true" });
    this.area = h("textarea", {
      class: "editor-text",
      spellcheck: "false",
      autocomplete: "off",
      autocapitalize: "off",
      wrap: "off",
      "aria-label": "The job in JSON or YAML",
      prop: { value: text },
    });
    this.element = h("div", { class: "editor" }, this.gutter, this.area);
    /** @type {Map<number, string>} */
    this.problems = new Map();
    this.area.addEventListener("input", () => {
      this.#number();
      changed(this.area.value);
    });
    this.area.addEventListener("scroll", () => this.gutter.scrollTop = this.area.scrollTop);
    this.area.addEventListener("keydown", (event) => this.#indent(event));
    this.#number();
  }

  /** @param {string} text */
  set(text) {
    if (this.area.value === text) return;
    this.area.value = text;
    this.#number();
  }

  /** @param {Map<number, string>} problems by line */
  mark(problems) {
    this.problems = problems;
    this.#number();
  }

  /** @param {number} line */
  goTo(line) {
    const lines = this.area.value.split("\n");
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    this.area.focus();
    this.area.setSelectionRange(at, at + (lines[line - 1]?.length ?? 0));
    this.area.scrollTop = Math.max(0, (line - 4) * LINE_PX);
  }

  #number() {
    const count = this.area.value.split("\n").length;
    const version = `${count} ${[...this.problems.keys()]}`;
    this.area.style.height = `${Math.min(640, Math.max(320, count * LINE_PX + 24))}px`;
    if (this.gutter.dataset.version === version) return;
    this.gutter.dataset.version = version;
    fill(
      this.gutter,
      Array.from({ length: count }, (_, at) =>
        h(
          "div",
          { class: this.problems.has(at + 1) ? "problem" : "", title: this.problems.get(at + 1) },
          at + 1,
        )),
    );
    this.gutter.scrollTop = this.area.scrollTop;
  }

  /** A new line begins where the one before it did. @param {KeyboardEvent} event */
  #indent(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
    const { selectionStart: at, value } = this.area;
    const line = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
    const indent = /^\s*(- )?/.exec(line)?.[0].replace("- ", "  ") ?? "";
    const deeper = /[{[:]\s*$/.test(line) ? "  " : "";
    event.preventDefault();
    this.area.setRangeText(`\n${indent}${deeper}`, at, this.area.selectionEnd, "end");
    this.area.dispatchEvent(new Event("input"));
  }
}
