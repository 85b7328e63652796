// The search box: any ID goes to its record, any other text to the jobs whose names begin with it.

import { get, path } from "./api.js";
import { fill, h } from "./dom.js";
import { kindOfId, nodeName, short } from "./format.js";
import { icon } from "./icons.js";
import { go } from "./router.js";
import { badge, jobLook, nodeLook } from "./state.js";

/** @import { Job, NodeRecord } from "../types.d.ts" */

const PAUSE_MS = 150;
const MOST = 6;

/** @typedef {{ url: string, element: Element[] }} Hit */

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
      "aria-label": "Search for a job by name, or any record by ID",
      title: "A job's name, or the ID of a job, an execution or a node",
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
      const found = await lookUp(text, signal);
      this.#offer(found, found.length ? "" : `Nothing is called '${text}' or begins with it.`);
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
    go(hit.url);
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

/** @param {string} text @param {AbortSignal} signal @returns {Promise<Hit[]>} */
async function lookUp(text, signal) {
  const kind = kindOfId(text);
  const id = text.toLowerCase();
  if (kind === "job") {
    const { Job } = await get(path(["jobs", id]), signal);
    return [jobHit(Job)];
  }
  if (kind === "node") {
    const { Node } = await get(path(["nodes", id]), signal);
    return [nodeHit(Node)];
  }
  if (kind === "execution") {
    const { Execution } = await get(path(["executions", id]), signal);
    return [{
      url: `/executions/${Execution.ID}`,
      element: [icon("jobs"), grow(Execution.Name), h("span", { class: "id" }, short(Execution.ID))],
    }];
  }
  const [jobs, nodes] = await Promise.all([
    get(
      path(["jobs"], { view: "summary", namespace: "*", name_prefix: text, reverse: true, limit: MOST }),
      signal,
    ),
    get(path(["nodes"], { limit: 1000 }), signal),
  ]);
  const named = nodes.Nodes.filter((/** @type {NodeRecord} */ node) => nodeName(node).startsWith(text)).slice(
    0,
    3,
  );
  const hits = [...jobs.Jobs.map(jobHit), ...named.map(nodeHit)];
  if (jobs.NextToken) {
    hits.push({
      url: `/jobs?name_prefix=${encodeURIComponent(text)}&namespace=*`,
      element: [icon("jobs"), grow(`All jobs whose names begin with '${text}'`)],
    });
  }
  return hits;
}

/** @param {Job} job @returns {Hit} */
function jobHit(job) {
  return {
    url: `/jobs/${job.ID}`,
    element: [badge(jobLook(job.State.StateType)), grow(job.Name), h("span", { class: "id" }, short(job.ID))],
  };
}

/** @param {NodeRecord} node @returns {Hit} */
function nodeHit(node) {
  return {
    url: `/nodes/${node.PeerInfo.ID}`,
    element: [
      badge(nodeLook(node)),
      grow(nodeName(node)),
      h("span", { class: "id" }, short(node.PeerInfo.ID)),
    ],
  };
}

/** @param {string} text */
function grow(text) {
  return h("span", { class: "grow" }, text);
}
