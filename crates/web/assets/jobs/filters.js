// The filters of the list of jobs: read from the URL, written to it, and turned into a query of the API.

import { h } from "../dom.js";
import { choice, typed } from "../elements/fields.js";
import { kindOfId } from "../format.js";
import { namespaceField } from "./namespaces.js";
import { go } from "../router.js";
import { session } from "../session.js";
import { jobLook } from "../state.js";
import { icon } from "../icons.js";

/** @type {Record<string, Record<string, string | boolean>>} */
const ORDERS = {
  newest: { order_by: "create_time", reverse: true },
  oldest: { order_by: "create_time", reverse: false },
  changed: { order_by: "modify_time", reverse: true },
};

/** The states as they are chosen: who waits for room waits, pending or queued. @type {[string, string][]} */
const STATES = [
  ["Pending,Queued", "Waiting"],
  ["Running", "Running"],
  ["Completed", "Completed"],
  ["Failed", "Failed"],
  ["Stopped", "Stopped"],
];

const TYPES = ["batch", "ops", "service", "daemon"];
/** @type {[string, string][]} */
const SPANS = [["", "Any time"], ["1h", "Last hour"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"]];

/**
 * @typedef {{
 *   prefix?: string, namespace?: string, states?: string[], type?: string,
 *   labels?: string, since?: string, before?: string, order?: string,
 * }} Values
 */

/** The namespace that a URL does not have to name: all, or the only one of the reader's role. */
export function usualNamespace() {
  return session.home || "*";
}

export class Filters {
  /** @param {Values} values */
  constructor(values) {
    this.prefix = values.prefix ?? "";
    this.namespace = values.namespace ?? usualNamespace();
    /** @type {string[]} */
    this.states = values.states ?? [];
    this.type = values.type ?? "";
    this.labels = values.labels ?? "";
    this.since = values.since ?? "";
    this.before = values.before ?? "";
    this.order = values.order ?? "newest";
  }

  /** @returns {Record<string, string | boolean>} */
  asked() {
    return {
      name_prefix: this.prefix,
      namespace: this.namespace,
      state: this.states.join(","),
      type: this.type,
      labels: this.labels,
      created_after: this.since,
      created_before: this.before,
      ...ORDERS[this.order],
    };
  }

  get isNarrowed() {
    return Boolean(
      this.prefix || this.namespace !== usualNamespace() || this.states.length || this.type || this.labels ||
        this.since ||
        this.before,
    );
  }
}

/** @param {URLSearchParams} query */
export function readFilters(query) {
  const order = query.get("order") ?? "newest";
  return new Filters({
    prefix: query.get("name_prefix") ?? "",
    namespace: query.get("namespace") || usualNamespace(),
    states: (query.get("state") ?? "").split(",").filter(Boolean),
    type: query.get("type") ?? "",
    labels: query.get("labels") ?? "",
    since: query.get("since") ?? "",
    before: query.get("before") ?? "",
    order: order in ORDERS ? order : "newest",
  });
}

/** @param {Filters} filters */
export function toQuery(filters) {
  const query = new URLSearchParams();
  const put = (/** @type {string} */ name, /** @type {string} */ value, usual = "") =>
    value !== usual && query.set(name, value);
  put("name_prefix", filters.prefix);
  put("namespace", filters.namespace, usualNamespace());
  put("state", filters.states.join(","));
  put("type", filters.type);
  put("labels", filters.labels);
  put("since", filters.since);
  put("before", filters.before);
  put("order", filters.order, "newest");
  return query;
}

/**
 * @param {Filters} filters
 * @param {(filters: Filters) => void} changed
 * @param {HTMLElement} end what stands at the end of the bar
 */
export function filterBar(filters, changed, end) {
  let current = filters;
  const update = (/** @type {Values} */ values) => {
    current = new Filters({ ...current, ...values });
    changed(current);
  };
  const name = typed("Name begins with…", "Name begins with, or an ID", current.prefix, "search", (text) => {
    const kind = kindOfId(text);
    if (kind && text.length >= 10) {
      return go(
        kind === "job" ? `/jobs/${text}` : kind === "node" ? `/nodes/${text}` : `/executions/${text}`,
      );
    }
    update({ prefix: text });
  });
  return h(
    "div",
    { class: "toolbar filters", role: "search", "aria-label": "Filters" },
    name,
    h(
      "div",
      { class: "choices", role: "group", "aria-label": "State" },
      STATES.map(([value, word]) => stateButton(value, word, () => current, update)),
    ),
    end,
    h("span", { class: "break" }),
    choice(
      "Type",
      [["", "Any type"], ...TYPES.map((type) => /** @type {[string, string]} */ ([type, type]))],
      current.type,
      (type) => update({ type }),
    ),
    namespaceField(current.namespace, (namespace) => update({ namespace })),
    typed("Labels: team=docs", "Selector of labels", current.labels, "text", (labels) => update({ labels })),
    choice(
      "Submitted",
      SPANS.some(([value]) => value === current.since)
        ? SPANS
        : [...SPANS, [current.since, `Since ${current.since}`]],
      current.since,
      (since) => update({ since }),
    ),
    choice(
      "Order",
      [["newest", "Newest first"], ["oldest", "Oldest first"], ["changed", "Last changed first"]],
      current.order,
      (order) => update({ order }),
    ),
    current.before ? h("a", { class: "button", href: "/jobs" }, icon("close"), "Back to the newest") : null,
  );
}

/** @param {string} value @param {string} word @param {() => Filters} current @param {(values: Values) => void} update */
function stateButton(value, word, current, update) {
  const states = value.split(",");
  const look = jobLook(states[states.length - 1]);
  const isOn = () => states.some((state) => current().states.includes(state));
  const button = h(
    "button",
    { type: "button", "aria-pressed": String(isOn()) },
    h("span", { class: `tone-${look.tone}` }, icon(look.icon)),
    word,
  );
  button.addEventListener("click", () => {
    const others = current().states.filter((state) => !states.includes(state));
    update({ states: isOn() ? others : [...others, ...states] });
    button.setAttribute("aria-pressed", String(isOn()));
  });
  return button;
}
