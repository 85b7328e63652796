// Quantities and names as people read them.

/** @param {number} bytes */
export function bytes(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let value = bytes;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit === 0 || value >= 100 ? Math.round(value) : trimmed(value)} ${units[unit]}`;
}

/** At most one digit after the point, and none that is zero. @param {number} value */
function trimmed(value) {
  return String(Math.round(value * 10) / 10);
}

// What reorders the text around it, or breaks its line, without being seen.
const DIRECTIONAL = /[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Text of others, which cannot look like another text. @param {string} text */
export function visible(text) {
  return text.replace(
    DIRECTIONAL,
    (character) => `\\u{${character.charCodeAt(0).toString(16).padStart(4, "0")}}`,
  );
}

/** Cores, with what is left below a tenth in thousandths. @param {number} value */
export function cores(value) {
  return value > 0 && value < 0.1 ? `${Math.round(value * 1000)}m` : trimmed(value);
}

/** @param {number} value */
export function count(value) {
  return value.toLocaleString("en");
}

/** `1 node`, `2 nodes`. @param {number} value @param {string} noun @param {string} [many] */
export function plural(value, noun, many = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : many}`;
}

/** The short form of an ID, which the API accepts in its place. @param {string} id */
export function short(id) {
  return /^[jenv]-[0-9a-f]{8}-/.test(id) ? id.slice(0, 10) : id;
}

/** What kind of record a text may be the ID of. @param {string} text @returns {"job" | "execution" | "node" | null} */
export function kindOfId(text) {
  const found = /^([jen])-[0-9a-f]{8}[0-9a-f-]{0,28}$/.exec(text.trim().toLowerCase());
  if (!found) return null;
  return found[1] === "j" ? "job" : found[1] === "e" ? "execution" : "node";
}

/** The name of a node; one of an earlier release has that of its host. @param {{ PeerInfo: { ID: string }, Name?: string, Labels: Record<string, string> }} node */
export function nodeName(node) {
  return node.Name || node.Labels["hostname"] || short(node.PeerInfo.ID);
}

/** The index of the slot that an execution fills, from a name such as `words[3]`. @param {string} name */
export function slotOf(name) {
  const found = /\[(\d+)\]$/.exec(name);
  return found ? Number(found[1]) : 0;
}

/** A word for the shell: quoted only if it must be. @param {string} word */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
