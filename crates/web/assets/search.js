// The search box: finds jobs and nodes by any part of a name, an ID or a label, and acts on them.

import { fill, h } from "./dom.js";
import { go } from "./router.js";

/** @import { Hit } from "./search/look-up.js" */

const PAUSE_MS = 150;

export function searchBox() {
  const box = new SearchBox();
  return { element: box.element, focus: () => box.focus() };
}

class SearchBox {
  /** @type {Hit[]} */ hits = [];
  chosen = 0;
  #timer = 0;
  #asked = new AbortController();

  constructor() {
    this.input = h("input", {
      type: "search",
      placeholder: "Search",
      "aria-label": "Search for a job or a node by name, label or ID",
      title: "Part of a name, an ID or a label. Begin with 'logs', 'stop' or 'drain' to act.",
      autocomplete: "off",
      spellcheck: "false",
      role: "combobox",
      "aria-expanded": "false",
      "aria-controls": "found",
      "aria-autocomplete": "list",
    });
    this.list = h("ul", {
      class: "found",
      id: "found",
      role: "listbox",
      "aria-label": "Found",
      hidden: true,
    });
    this.element = h(
      "div",
      { class: "find", role: "search" },
      this.input,
      h("kbd", { "aria-hidden": "true" }, "/"),
      this.list,
    );
    this.input.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => void this.search(), PAUSE_MS);
    });
    this.input.addEventListener("blur", () => this.close());
    this.input.addEventListener("keydown", (event) => void this.#key(event));
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  close() {
    this.#asked.abort();
    clearTimeout(this.#timer);
    this.#timer = 0;
    this.hits = [];
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  async search() {
    this.#timer = 0;
    this.#asked.abort();
    const { signal } = this.#asked = new AbortController();
    const text = this.input.value.trim();
    if (!text) return this.close();
    try {
      const { lookUp } = await import("./search/look-up.js");
      const { hits, note } = await lookUp(text, signal);
      if (!signal.aborted) this.#offer(hits, note);
    } catch (error) {
      if (!signal.aborted) this.#offer([], /** @type {Error} */ (error).message);
    }
  }

  /** @param {KeyboardEvent} event */
  async #key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      if (this.list.hidden) this.input.blur();
      this.close();
    } else if (by) {
      event.preventDefault();
      const n = this.hits.length;
      if (n) this.#choose((this.chosen + by + n) % n);
    } else if (event.key === "Enter") {
      event.preventDefault();
      // What was typed since the last answer counts.
      if (this.list.hidden || this.#timer) {
        clearTimeout(this.#timer);
        await this.search();
      }
      if (this.hits[this.chosen]) this.#open(this.hits[this.chosen]);
    }
  }

  /** @param {Hit} hit */
  #open(hit) {
    this.close();
    this.input.value = "";
    if (hit.url) go(hit.url);
    else void hit.act?.();
  }

  /** @param {number} index */
  #choose(index) {
    this.chosen = index;
    [...this.list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    if (this.hits[index]) this.input.setAttribute("aria-activedescendant", `found-${index}`);
  }

  /** @param {Hit[]} found @param {string} note */
  #offer(found, note) {
    this.hits = found;
    // The box keeps the focus, so that the click arrives.
    const onmousedown = (/** @type {Event} */ event) => event.preventDefault();
    fill(
      this.list,
      found.map((hit, index) =>
        h(
          "li",
          { role: "option", id: `found-${index}`, onmousedown, onclick: () => this.#open(hit) },
          hit.element,
        )
      ),
      note ? h("li", { class: "note", role: "option", "aria-disabled": "true" }, note) : null,
    );
    this.list.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.#choose(0);
  }
}
