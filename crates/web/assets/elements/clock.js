// Elements for times that pass: `time-ago` for a moment, `run-time` for a duration that may still grow.

import { h } from "../dom.js";
import { absolute, ago, aroundTimes, duration, local, millis } from "../time.js";

/** @type {Set<{ tick: (now: number) => void }>} */
const ticking = new Set();

setInterval(() => {
  if (document.hidden) return;
  const now = Date.now();
  for (const element of ticking) element.tick(now);
}, 1000);

class TimeAgo extends HTMLElement {
  at = 0;

  connectedCallback() {
    ticking.add(this);
    this.title = absolute(this.at);
    this.tick(Date.now());
  }

  disconnectedCallback() {
    ticking.delete(this);
  }

  /** @param {number} now */
  tick(now) {
    const text = ago(this.at, now);
    if (this.textContent !== text) this.textContent = text;
  }
}

class RunTime extends HTMLElement {
  from = 0;
  to = 0;

  connectedCallback() {
    if (!this.to) ticking.add(this);
    this.title = `started ${absolute(this.from)}${this.to ? `, ended ${absolute(this.to)}` : ""}`;
    this.tick(Date.now());
  }

  disconnectedCallback() {
    ticking.delete(this);
  }

  /** @param {number} now */
  tick(now) {
    const end = this.to || now;
    // Tenths of a second that count up would only distract.
    const span = this.to ? end - this.from : Math.floor((end - this.from) / 1000) * 1000;
    const text = !this.to && span < 1000 ? "0 s" : duration(span).replace(/^(\d)\.0 s$/, "$1 s");
    if (this.textContent !== text) this.textContent = text;
  }
}

customElements.define("time-ago", TimeAgo);
customElements.define("run-time", RunTime);

/** @param {number | string | undefined} moment of the API @returns {HTMLElement | string} */
export function timeAgo(moment) {
  const at = millis(moment);
  if (!at) return "–";
  const element = /** @type {TimeAgo} */ (document.createElement("time-ago"));
  element.at = at;
  return element;
}

/** @param {number | string | undefined} from @param {number | string | undefined} to @returns {HTMLElement | string} */
export function runTime(from, to) {
  const start = millis(from);
  if (!start) return "–";
  const element = /** @type {RunTime} */ (document.createElement("run-time"));
  element.from = start;
  element.to = millis(to);
  return element;
}

/** A text of the service, whose times are local ones with their zone in the title. @param {string} text @returns {(HTMLElement | string)[]} */
export function timed(text) {
  return aroundTimes(text).map((part, at) => {
    if (at % 2 === 0) return part;
    const moment = millis(part);
    return h("time", { datetime: part, title: absolute(moment) }, local(moment, Date.now()));
  });
}
