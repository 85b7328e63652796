// Times and durations as people read them; the API's nanoseconds and RFC 3339 become milliseconds here.

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Milliseconds of a moment: Unix nanoseconds or RFC 3339; 0 when there is none. @param {number | string | undefined | null} value */
export function millis(value) {
  if (!value) return 0;
  if (typeof value === "number") return value / 1e6;
  const at = Date.parse(value);
  return Number.isNaN(at) ? 0 : at;
}

/** A duration with its two largest units: `4.2 s`, `3 min 20 s`, `2 d 4 h`. @param {number} ms */
export function duration(ms) {
  const span = Math.max(0, ms);
  if (span < SECOND) return `${Math.round(span)} ms`;
  if (span < 10 * SECOND) return `${(Math.floor(span / 100) / 10).toFixed(1)} s`;
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`;
  if (span < HOUR) return two(span, MINUTE, "min", SECOND, "s");
  if (span < DAY) return two(span, HOUR, "h", MINUTE, "min");
  return two(span, DAY, "d", HOUR, "h");
}

/** @param {number} span @param {number} large @param {string} largeUnit @param {number} small @param {string} smallUnit */
function two(span, large, largeUnit, small, smallUnit) {
  const rest = Math.floor((span % large) / small);
  return `${Math.floor(span / large)} ${largeUnit}${rest ? ` ${rest} ${smallUnit}` : ""}`;
}

/** How long ago, in one unit: `12 s ago`, `3 min ago`. @param {number} at @param {number} now */
export function ago(at, now) {
  const span = now - at;
  if (span < -5 * SECOND) return `in ${coarse(-span)}`;
  if (span < 2 * SECOND) return "now";
  return `${coarse(span)} ago`;
}

/** @param {number} span */
export function coarse(span) {
  if (span < MINUTE) return `${Math.floor(span / SECOND)} s`;
  if (span < HOUR) return `${Math.floor(span / MINUTE)} min`;
  if (span < 2 * DAY) return `${Math.floor(span / HOUR)} h`;
  return `${Math.floor(span / DAY)} d`;
}

/** The absolute local time with its zone, for titles. @param {number} at */
export function absolute(at) {
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

/** Hours, minutes, seconds and milliseconds of a local time, for logs and events. @param {number} at */
export function clock(at) {
  const date = new Date(at);
  /** @param {number} n @param {number} [width] */
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  return `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${
    pad(date.getMilliseconds(), 3)
  }`;
}

/** A local time without fraction, with the date unless it is today. @param {number} at @param {number} now */
export function local(at, now) {
  const [then, today] = [new Date(at), new Date(now)];
  const time = clock(at).slice(0, 8);
  if (then.toDateString() === today.toDateString()) return time;
  const date = then.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  return then.getFullYear() === today.getFullYear()
    ? `${date}, ${time}`
    : `${date} ${then.getFullYear()}, ${time}`;
}

/** The times that the service writes into texts. */
const WRITTEN = /\b(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)\b/;

/** A text in parts: those at odd places are times of the API. @param {string} text */
export function aroundTimes(text) {
  return text.split(WRITTEN);
}

/**
 * A moment of the API that lies `offset` nanoseconds after `nanos`, as RFC 3339.
 * The 19 digits of a CreateTime do not fit a number, so `offset` should exceed the 256 ns that are lost.
 * @param {number} nanos @param {number} offset
 */
export function moment(nanos, offset = 0) {
  const exact = BigInt(Math.round(nanos)) + BigInt(offset);
  const seconds = new Date(Number(exact / 1_000_000n)).toISOString().slice(0, 19);
  return `${seconds}.${String(exact % 1_000_000_000n).padStart(9, "0")}Z`;
}
