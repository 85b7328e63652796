// The lines of a log in memory: the newest 50,000, with the total and a search over them.

import { plain } from "./ansi.js";

/** @typedef {{ id: number, execution: string, index?: number, stream: string, time: string, line: string }} Line */

/** What is older than this many lines leaves the page; the download has all of it. */
export const KEPT = 50_000;
// The array is cut in steps, since cutting it for every line would copy it for every line.
const SLACK = 5_000;

export class LogBuffer {
  /** @type {Line[]} */ lines = [];
  /** Lines that have arrived. */
  total = 0;
  /** Lines that arrived with nothing of them shown: a hidden stream or execution. */
  #filter = (/** @type {Line} */ _line) => true;
  /** @type {Line[]} */ visible = [];
  /** How many visible lines were cut off at the top since the last call of `takeCut`. */
  #cut = 0;

  /** @param {Omit<Line, "id">[]} lines */
  append(lines) {
    for (const line of lines) {
      const kept = { ...line, id: this.total++ };
      this.lines.push(kept);
      if (this.#filter(kept)) this.visible.push(kept);
    }
    if (this.lines.length > KEPT + SLACK) this.#trim();
  }

  #trim() {
    this.lines = this.lines.slice(-KEPT);
    const first = this.lines[0].id;
    const at = this.visible.findIndex((line) => line.id >= first);
    const cut = at < 0 ? this.visible.length : at;
    this.visible = this.visible.slice(cut);
    this.#cut += cut;
  }

  takeCut() {
    const cut = this.#cut;
    this.#cut = 0;
    return cut;
  }

  /** @param {(line: Line) => boolean} filter */
  show(filter) {
    this.#filter = filter;
    this.visible = this.lines.filter(filter);
    this.#cut = 0;
  }

  clear() {
    this.lines = [];
    this.visible = [];
    this.total = 0;
    this.#cut = 0;
  }

  /**
   * The visible lines that contain a text, without regard to case.
   * @param {string} text @param {number} [from] lines with a smaller id were searched before
   * @returns {number[]} their ids
   */
  search(text, from = 0) {
    const wanted = text.toLowerCase();
    const found = [];
    for (const line of this.visible) {
      if (line.id >= from && plain(line.line).toLowerCase().includes(wanted)) found.push(line.id);
    }
    return found;
  }

  /** The place of a line among the visible ones. @param {number} id */
  indexOf(id) {
    let low = 0;
    let high = this.visible.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.visible[middle].id < id) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
