// Splits a line of output into pieces of text with the style that its escape sequences ask for.
// deno-lint-ignore-file no-control-regex

/** @typedef {{ text: string, style: string }} Piece `style` is a list of classes */

const COLOURS = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

// The 16 colours of terminals, to which finer ones are rounded so that every text stays readable.
const PALETTE = [
  [0, 0, 0],
  [205, 49, 49],
  [13, 188, 121],
  [190, 160, 16],
  [36, 114, 200],
  [188, 63, 188],
  [17, 168, 205],
  [200, 200, 200],
];

const ESCAPE =
  /\x1b\[([0-9;:?]*)([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]?|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]/g;

/** The text of a line as a person reads it: without escape sequences, and only what a bare CR left standing. @param {string} line */
export function plain(line) {
  return lastWritten(line).replace(ESCAPE, "");
}

/** A carriage return writes over what stood before it, as progress bars do. @param {string} line */
function lastWritten(line) {
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  const at = text.lastIndexOf("\r");
  return at < 0 ? text : text.slice(at + 1);
}

/** @param {string} line @returns {Piece[]} */
export function pieces(line) {
  const text = lastWritten(line);
  if (!/[\x00-\x1f\x7f-\x9f]/.test(text)) return text ? [{ text, style: "" }] : [];
  /** @type {Piece[]} */
  const found = [];
  const state = { colour: "", bold: false, dim: false, italic: false, underline: false };
  let from = 0;
  const flush = (/** @type {number} */ to) => {
    if (to > from) found.push({ text: text.slice(from, to), style: classes(state) });
  };
  for (const match of text.matchAll(ESCAPE)) {
    flush(match.index);
    from = match.index + match[0].length;
    if (match[2] === "m") apply(state, match[1]);
  }
  flush(text.length);
  return found;
}

/** @typedef {{ colour: string, bold: boolean, dim: boolean, italic: boolean, underline: boolean }} Style */

/** @param {Style} state */
function classes(state) {
  return [
    state.colour,
    state.bold && "bold",
    state.dim && "dim",
    state.italic && "italic",
    state.underline && "underline",
  ]
    .filter(Boolean).map((name) => `ansi-${name}`).join(" ");
}

/** @param {Style} state @param {string} codes */
function apply(state, codes) {
  const numbers = codes.split(/[;:]/).map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at];
    if (code === 0) {
      Object.assign(state, { colour: "", bold: false, dim: false, italic: false, underline: false });
    } else if (code === 1) state.bold = true;
    else if (code === 2) state.dim = true;
    else if (code === 3) state.italic = true;
    else if (code === 4) state.underline = true;
    else if (code === 22) state.bold = state.dim = false;
    else if (code === 23) state.italic = false;
    else if (code === 24) state.underline = false;
    else if (code >= 30 && code <= 37) state.colour = COLOURS[code - 30];
    else if (code >= 90 && code <= 97) state.colour = COLOURS[code - 90];
    else if (code === 39) state.colour = "";
    else if (code === 38 || code === 48) {
      const [colour, used] = extended(numbers.slice(at + 1));
      if (code === 38) state.colour = colour;
      at += used;
    }
  }
}

/** A colour of 256 or of 24 bits. @param {number[]} rest @returns {[string, number]} its name, and how many numbers it took */
function extended(rest) {
  if (rest[0] === 5) return [indexed(rest[1] ?? 0), 2];
  if (rest[0] === 2) return [nearest(rest[1] ?? 0, rest[2] ?? 0, rest[3] ?? 0), 4];
  return ["", 0];
}

/** @param {number} index */
function indexed(index) {
  if (index < 16) return COLOURS[index % 8];
  if (index > 231) return nearest((index - 232) * 10 + 8, (index - 232) * 10 + 8, (index - 232) * 10 + 8);
  const cube = index - 16;
  const level = (/** @type {number} */ n) => n ? n * 40 + 55 : 0;
  return nearest(level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6));
}

/** @param {number} r @param {number} g @param {number} b */
function nearest(r, g, b) {
  let best = 0;
  let least = Infinity;
  PALETTE.forEach(([pr, pg, pb], index) => {
    const distance = (pr - r) ** 2 + (pg - g) ** 2 + (pb - b) ** 2;
    if (distance < least) [best, least] = [index, distance];
  });
  return COLOURS[best];
}
