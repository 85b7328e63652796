// Shows the lines of a log, only those in sight; heights follow from the width of one monospaced character.

import { h } from "../dom.js";
import { visible } from "../format.js";
import { pieces, plain } from "../job/ansi.js";
import { absolute, clock, millis } from "../time.js";

/** @import { Line, LogBuffer } from "../job/log-buffer.js" */

const LINE_PX = 18;
// Rows above and below the visible part, so that scrolling never shows an empty page.
const MARGIN_ROWS = 20;
// A line longer than this is shown in part: laying it out would take longer than a frame.
const LONGEST = 20_000;
// Within this distance of the end the view follows.
const AT_END_PX = 24;
// Browsers give up on elements taller than about 33 million pixels; 55,000 lines stay far below.
const HUES = 8;
// What a label such as `[1234]` or a short ID takes.
const LABEL_COLUMNS = 11;

export class LogView {
  wrap = true;
  times = false;
  ids = false;
  follows = true;
  /** @type {string} */ mark = "";
  current = -1;
  /** Called when following begins or ends. */
  onfollow = () => {};
  /** The heights of the lines, summed up: entry i is where line i begins. */
  #tops = new Float64Array(1);
  #columns = 80;
  #charPx = 7.5;
  #frame = 0;
  #measured = 0;
  /** The rows in the document, from top to bottom. @type {Map<Line, HTMLElement>} */
  #drawn = new Map();
  /** How they look, apart from their lines. */
  #look = "";

  /** @param {LogBuffer} buffer @param {(execution: string) => { hue: number, label: string }} source */
  constructor(buffer, source) {
    this.buffer = buffer;
    this.source = source;
    this.rows = h("div", { class: "log-rows" });
    this.space = h("div", { class: "log-space" }, this.rows);
    this.probe = h("span", { class: "log-probe", "aria-hidden": "true" }, "0".repeat(100));
    this.element = h(
      "div",
      { class: "log", tabindex: 0, role: "log", "aria-label": "Output", "aria-live": "off" },
      this.space,
      this.probe,
    );
    this.element.addEventListener("scroll", () => this.#scrolled());
    this.resize = new ResizeObserver(() => this.relayout());
    this.resize.observe(this.element);
  }

  close() {
    this.resize.disconnect();
    cancelAnimationFrame(this.#frame);
  }

  /** Lines were added, or the top was cut. */
  appended() {
    const cut = this.buffer.takeCut();
    if (cut && !this.follows) this.element.scrollTop -= this.#tops[Math.min(cut, this.#measured)] ?? 0;
    if (cut) this.#measured = 0;
    this.#draw();
  }

  /** Everything may look different: other lines, another width, another search. */
  relayout() {
    const width = this.probe.getBoundingClientRect().width / 100;
    if (width) this.#charPx = width;
    const gutter = 24 + this.#prefix() * this.#charPx;
    this.#columns = Math.max(10, Math.floor((this.element.clientWidth - gutter) / this.#charPx));
    this.#measured = 0;
    this.#draw();
  }

  #prefix() {
    return (this.times ? 13 : 0) + (this.ids ? LABEL_COLUMNS : 0);
  }

  #draw() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.#measure();
      if (this.follows) this.element.scrollTop = this.element.scrollHeight;
      this.#render();
    });
  }

  /** Adds up the heights of lines that were not measured yet. */
  #measure() {
    const lines = this.buffer.visible;
    if (this.#tops.length < lines.length + 1) {
      const larger = new Float64Array((lines.length + 1) * 2);
      larger.set(this.#tops.subarray(0, this.#measured + 1));
      this.#tops = larger;
    }
    for (let at = this.#measured; at < lines.length; at += 1) {
      this.#tops[at + 1] = this.#tops[at] + this.#rowsOf(lines[at]) * LINE_PX;
    }
    this.#measured = lines.length;
    this.space.style.height = `${this.#tops[lines.length]}px`;
    this.element.classList.toggle("wraps", this.wrap);
    this.element.classList.toggle("with-times", this.times);
    this.element.classList.toggle("with-ids", this.ids);
  }

  /** @param {Line} line */
  #rowsOf(line) {
    if (!this.wrap) return 1;
    const text = line.line.length > this.#columns / 2 ? plain(line.line).slice(0, LONGEST) : "";
    return Math.max(1, Math.ceil(width(visible(text)) / this.#columns));
  }

  /** The first line that ends below a height. @param {number} px */
  #lineAt(px) {
    let low = 0;
    let high = this.buffer.visible.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#tops[middle + 1] <= px) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #render() {
    const lines = this.buffer.visible;
    const top = this.element.scrollTop;
    const margin = MARGIN_ROWS * LINE_PX;
    const first = this.#lineAt(Math.max(0, top - margin));
    const last = Math.min(lines.length, this.#lineAt(top + this.element.clientHeight + margin) + 1);
    this.rows.style.transform = `translateY(${this.#tops[first]}px)`;
    this.#place(lines.slice(first, last), first);
  }

  /** Draws only rows that are not there yet: building all of them takes longer than a frame. @param {Line[]} lines @param {number} first */
  #place(lines, first) {
    const { times, ids, mark, current, wrap } = this;
    const look = JSON.stringify([times, ids, mark, current, wrap, this.#columns]);
    const wanted = new Set(look === this.#look ? lines : []);
    this.#look = look;
    for (const [line, row] of this.#drawn) if (!wanted.has(line)) row.remove();
    /** @type {Map<Line, HTMLElement>} */
    const drawn = new Map();
    let next = this.rows.firstElementChild;
    lines.forEach((line, at) => {
      let row = wanted.has(line) ? this.#drawn.get(line) : undefined;
      if (row) next = row.nextElementSibling;
      else {
        row = this.#row(line, this.#tops[first + at + 1] - this.#tops[first + at]);
        this.rows.insertBefore(row, next);
      }
      drawn.set(line, row);
    });
    this.#drawn = drawn;
  }

  /** @param {Line} line @param {number} height */
  #row(line, height) {
    const source = this.source(line.execution);
    const row = h(
      "div",
      { class: `log-line ${line.stream}${line.id === this.current ? " current" : ""}` },
      this.times
        ? h("span", { class: "log-time", title: absolute(millis(line.time)) }, clock(millis(line.time)))
        : null,
      this.ids
        ? h(
          "span",
          { class: `log-id hue-${source.hue % HUES}`, title: line.execution },
          source.label,
        )
        : null,
      h("span", { class: "log-text" }, this.#text(line)),
    );
    row.style.height = `${height}px`;
    return row;
  }

  /** @param {Line} line @returns {Node[]} */
  #text(line) {
    const long = line.line.length > LONGEST;
    const parts = pieces(visible(long ? line.line.slice(0, LONGEST) : line.line));
    const nodes = this.mark && plain(line.line).toLowerCase().includes(this.mark)
      ? marked(parts, this.mark)
      : parts.map((part) =>
        part.style ? h("span", { class: part.style }, part.text) : document.createTextNode(part.text)
      );
    if (long) {
      nodes.push(
        h("span", { class: "muted" }, ` … ${line.line.length - LONGEST} more characters are in the download`),
      );
    }
    return nodes;
  }

  #scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.element;
    const atEnd = scrollHeight - scrollTop - clientHeight < AT_END_PX;
    if (atEnd !== this.follows) {
      this.follows = atEnd;
      this.onfollow();
    }
    // Lines may have arrived since the last frame; without a height they would lie on one another.
    this.#measure();
    this.#render();
  }

  /** @param {boolean} on */
  follow(on) {
    this.follows = on;
    this.onfollow();
    if (on) this.#draw();
  }

  /** Puts a line into the middle. @param {number} id */
  reveal(id) {
    this.current = id;
    this.#measure();
    const at = this.buffer.indexOf(id);
    this.follows = false;
    this.element.scrollTop = Math.max(0, this.#tops[at] - this.element.clientHeight / 2);
    this.#render();
    this.onfollow();
  }
}

/** Columns that a text takes; wide characters take two. @param {string} text */
function width(text) {
  // deno-lint-ignore no-control-regex
  if (/^[\x00-\u02ff]*$/.test(text)) return text.length + 7 * (text.split("\t").length - 1);
  let columns = 0;
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    columns += code >= 0x1100 &&
        (code <= 0x115f || (code >= 0x2e80 && code <= 0xa4cf) || (code >= 0xac00 && code <= 0xd7a3) ||
          (code >= 0xf900 && code <= 0xfaff) || (code >= 0xff00 && code <= 0xff60) || code >= 0x1f300)
      ? 2
      : 1;
  }
  return columns;
}

/** @param {import("../job/ansi.js").Piece[]} parts @param {string} wanted in lower case @returns {Node[]} */
function marked(parts, wanted) {
  return parts.map((part) => {
    const span = h("span", { class: part.style });
    const lower = part.text.toLowerCase();
    let from = 0;
    for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, from)) {
      span.append(part.text.slice(from, at), h("mark", null, part.text.slice(at, at + wanted.length)));
      from = at + wanted.length;
    }
    span.append(part.text.slice(from));
    return span;
  });
}
