// The search within a log: how many lines contain a text, and which of them is shown.

import { h, say } from "../dom.js";
import { count } from "../format.js";
import { icon } from "../icons.js";

/** @import { LogBuffer } from "./log-buffer.js" */
/** @import { LogView } from "../elements/log-view.js" */

const PAUSE_MS = 120;

export class LogSearch {
  /** @type {number[]} */ #found = [];
  #at = -1;
  #searched = 0;
  #timer = 0;

  /** @param {LogBuffer} buffer @param {LogView} view */
  constructor(buffer, view) {
    this.buffer = buffer;
    this.view = view;
    this.input = h("input", {
      type: "search",
      placeholder: "Search the log",
      "aria-label": "Search the log",
      autocomplete: "off",
      spellcheck: "false",
    });
    this.told = h("span", { class: "small muted log-found", role: "status" });
    const step = (/** @type {number} */ by, /** @type {string} */ label, /** @type {string} */ turn) =>
      h("button", {
        type: "button",
        class: `quiet icon ${turn}`,
        "aria-label": label,
        title: label,
        onclick: () => this.step(by),
      }, icon("chevron"));
    this.element = h(
      "span",
      { class: "log-search" },
      this.input,
      step(-1, "Previous match", "up"),
      step(1, "Next match", "down"),
      this.told,
    );
    this.input.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.restart(true), PAUSE_MS);
    });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") {
        this.input.value = "";
        this.restart();
      }
    });
  }

  /** The text, or the lines that it is searched in, changed. */
  restart(reveal = false) {
    const text = this.input.value.toLowerCase();
    this.view.mark = text;
    this.view.current = -1;
    this.#found = text ? this.buffer.search(text) : [];
    this.#searched = this.buffer.total;
    this.#at = -1;
    this.view.relayout();
    if (reveal && this.#found.length) this.step(-1);
    this.#tell();
  }

  /** Lines were added. */
  grown() {
    if (!this.view.mark) return;
    const first = this.buffer.lines[0]?.id ?? 0;
    const gone = this.#found.findIndex((id) => id >= first);
    if (gone > 0) {
      this.#found = this.#found.slice(gone);
      this.#at = Math.max(-1, this.#at - gone);
    }
    this.#found.push(...this.buffer.search(this.view.mark, this.#searched));
    this.#searched = this.buffer.total;
    this.#tell();
  }

  /** @param {number} by */
  step(by) {
    const n = this.#found.length;
    if (!n) return;
    this.#at = this.#at < 0 ? (by > 0 ? 0 : n - 1) : (this.#at + by + n) % n;
    this.view.reveal(this.#found[this.#at]);
    this.#tell();
  }

  #tell() {
    if (!this.view.mark) return say(this.told, "");
    const kept = this.buffer.lines.length;
    const part = kept < this.buffer.total
      ? `, searched ${count(kept)} of ${count(this.buffer.total)} lines`
      : "";
    say(
      this.told,
      this.#found.length
        ? `${this.#at < 0 ? "–" : count(this.#at + 1)} of ${count(this.#found.length)}${part}`
        : `no match${part}`,
    );
  }
}
