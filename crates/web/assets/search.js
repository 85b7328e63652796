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
  const input = h("input", {
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
  const list = h("ul", { class: "found", id: "found", role: "listbox", "aria-label": "Found", hidden: true });
  /** @type {Hit[]} */
  let hits = [];
  let chosen = 0;
  let timer = 0;
  let asked = new AbortController();

  const close = () => {
    asked.abort();
    clearTimeout(timer);
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const open = (/** @type {Hit} */ hit) => {
    close();
    input.value = "";
    go(hit.url);
  };
  const choose = (/** @type {number} */ index) => {
    chosen = index;
    [...list.children].forEach((item, at) => item.setAttribute("aria-selected", String(at === index)));
    if (hits[index]) input.setAttribute("aria-activedescendant", `found-${index}`);
  };
  const offer = (/** @type {Hit[]} */ found, /** @type {string} */ note) => {
    hits = found;
    fill(
      list,
      hits.map((hit, index) =>
        h("li", {
          role: "option",
          id: `found-${index}`,
          onmousedown: (/** @type {Event} */ e) => e.preventDefault(),
          onclick: () => open(hit),
        }, hit.element)
      ),
      note ? h("li", { class: "note", role: "option", "aria-disabled": "true" }, note) : null,
    );
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    choose(0);
  };
  const search = async () => {
    const text = input.value.trim();
    asked.abort();
    asked = new AbortController();
    if (!text) return close();
    try {
      const found = await lookUp(text, asked.signal);
      offer(found, found.length ? "" : `Nothing is called '${text}' or begins with it.`);
    } catch (error) {
      if (!asked.signal.aborted) offer([], String(/** @type {Error} */ (error).message));
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, PAUSE_MS);
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", async (event) => {
    if (event.key === "Escape") {
      if (list.hidden) input.blur();
      return close();
    }
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (hits.length) choose((chosen + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length);
      return;
    }
    if (event.key !== "Enter") return;
    event.preventDefault();
    if (list.hidden || timer) {
      clearTimeout(timer);
      await search();
    }
    if (hits[chosen]) open(hits[chosen]);
  });
  return {
    element: h(
      "div",
      { class: "find", role: "search" },
      input,
      h("kbd", { "aria-hidden": "true" }, "/"),
      list,
    ),
    focus: () => {
      input.focus();
      input.select();
    },
  };
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
