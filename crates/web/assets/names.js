// The names of nodes, jobs and executions, so that links show names and lead by IDs; what a row does not say is read together.

import { get, path } from "./api.js";
import { h, say } from "./dom.js";
import { copyButton } from "./elements/copy.js";
import { nodeName, short } from "./format.js";
import { session } from "./session.js";

/** @import { Execution, Job, NodeRecord } from "../types.d.ts" */

// One page of a list; names that are not on it are read one by one, at most this many in parallel.
const PAGE = 1000;
const SINGLES = 8;
// Of a longer list of unknown records the others keep the short forms of their IDs.
const MOST_SINGLES = 300;
// A page that stays open for days sees many records; from here on it forgets them.
const MOST_KEPT = 20_000;

/** Names of records of one kind. */
class Names {
  /** @type {Map<string, string>} */ #known = new Map();
  /** Links whose names are being read. @type {Map<string, HTMLElement[]>} */ #wanted = new Map();
  /** @type {Promise<void> | null} */ #reading = null;

  /**
   * @param {string} place the path of a record's page begins with it
   * @param {(id: string) => Promise<string>} one reads a name
   * @param {(() => Promise<[string, string][]>) | null} many reads the usual ones
   */
  constructor(place, one, many) {
    this.place = place;
    this.one = one;
    this.many = many;
    session.addEventListener("change", () => this.#known.clear());
  }

  /** @param {string} id @param {string} name */
  learn(id, name) {
    if (this.#known.size >= MOST_KEPT) this.#known.clear();
    this.#known.set(id, name);
  }

  /** As far as it is known. @param {string} id */
  text(id) {
    return this.#known.get(id) ?? short(id);
  }

  /** @param {string} id @param {string} [name] where the row says it */
  link(id, name) {
    if (name) this.learn(id, name);
    const link = h("a", { href: `/${this.place}/${id}`, title: id }, this.text(id));
    if (!this.#known.has(id)) {
      this.#wanted.set(id, [...(this.#wanted.get(id) ?? []), link]);
      void this.#resolve();
    }
    return link;
  }

  /** Calls back once the names are known, if they are not yet. @param {string[]} ids @param {() => void} then */
  when(ids, then) {
    const missing = ids.filter((id) => id && !this.#known.has(id));
    if (!missing.length) return;
    for (const id of missing) if (!this.#wanted.has(id)) this.#wanted.set(id, []);
    void this.#resolve().then(then);
  }

  #resolve() {
    // Whatever a table asks for while it is built is read together.
    this.#reading ??= Promise.resolve().then(() => this.#read()).finally(() => {
      this.#reading = null;
      if (this.#wanted.size) void this.#resolve();
    });
    return this.#reading;
  }

  async #read() {
    const asked = new Map(this.#wanted);
    this.#wanted.clear();
    if (this.many && (!this.#known.size || asked.size > SINGLES)) {
      for (const [id, name] of await this.many().catch(() => [])) this.learn(id, name);
    }
    const left = [...asked.keys()].filter((id) => !this.#known.has(id)).slice(0, MOST_SINGLES);
    const work = async () => {
      for (let id = left.shift(); id; id = left.shift()) {
        const name = await this.one(id).catch(() => "");
        this.learn(id, name || short(id));
        for (const link of asked.get(id) ?? []) say(link, this.text(id));
      }
    };
    await Promise.all(Array.from({ length: SINGLES }, work));
    for (const [id, links] of asked) {
      if (!this.#known.has(id)) this.learn(id, short(id));
      for (const link of links) say(link, this.text(id));
    }
  }
}

/** @param {NodeRecord} node @returns {[string, string]} */
const ofNode = (node) => [node.PeerInfo.ID, nodeName(node)];

const nodes = new Names(
  "nodes",
  async (id) => ofNode((await get(path(["nodes", id]))).Node)[1],
  async () => (await get(path(["nodes"], { limit: PAGE }))).Nodes.map(ofNode),
);

const jobs = new Names(
  "jobs",
  async (id) => /** @type {Job} */ ((await get(path(["jobs", id]))).Job).Name,
  null,
);

const executions = new Names(
  "executions",
  async (id) => {
    const { Name } = /** @type {Execution} */ ((await get(path(["executions", id]))).Execution);
    return /\[\d+\]$/.exec(Name)?.[0] ?? Name;
  },
  null,
);

/** A node whose record was read. @param {NodeRecord} node */
export function learnNode(node) {
  nodes.learn(...ofNode(node));
}

/** @param {string} id */
export const nodeText = (id) => nodes.text(id);

/** @param {string[]} ids @param {() => void} then */
export const whenNamed = (ids, then) => nodes.when(ids, then);

/** @param {string} id */
export const jobText = (id) => jobs.text(id);

/** @param {string[]} ids @param {() => void} then */
export const whenJobsNamed = (ids, then) => jobs.when(ids, then);

/** @param {string} id @param {string} [name] */
export const nodeLink = (id, name) => nodes.link(id, name);

/** @param {string} id @param {string} [name] */
export const jobLink = (id, name) => jobs.link(id, name);

/** @param {string} id @param {string} [name] such as `[3]` */
export const executionLink = (id, name) => executions.link(id, name);

/** A link to a node with a button that copies the ID. @param {string} id */
export function nodeCell(id) {
  return h("span", { class: "id-text" }, nodeLink(id), copyButton(() => id, `Copy ${id}`));
}
