// Finds the line of a JSON text on which a path such as `Tasks[0].Engine.Params.Image` stands.

/**
 * The line of the deepest part of the path that is there; a missing field has the line of what should hold it.
 * @param {string} text @param {string} path
 * @returns {number} from 1
 */
export function lineOf(text, path) {
  const wanted = [...path.matchAll(/[^.[\]]+/g)].map((found) => found[0].toLowerCase());
  let best = 1;
  let depth = -1;
  walk(text, (keys, at) => {
    const names = keys.map((key) => String(key).toLowerCase());
    if (names[0] === "job") names.shift();
    if (names.length > depth && names.every((name, index) => name === wanted[index])) {
      depth = names.length;
      best = text.slice(0, at).split("\n").length;
    }
  });
  return best;
}

/** Calls `visit` with the keys that lead to each value. @param {string} text @param {(keys: (string | number)[], at: number) => void} visit */
function walk(text, visit) {
  /** @type {{ key: string | number, isList: boolean }[]} */
  const stack = [];
  /** @type {string | null} */
  let key = null;
  const token = /"(?:[^"\\]|\\.)*"?|[{}[\]:,]|[^\s{}[\]:,"]+/g;
  for (let match = token.exec(text); match; match = token.exec(text)) {
    const word = match[0];
    const top = stack[stack.length - 1];
    const rest = text.slice(token.lastIndex).match(/^\s*:/);
    if (word.startsWith('"') && rest && top && !top.isList) {
      key = parseKey(word);
      top.key = key;
      visit(keysOf(stack), match.index);
    } else if (word === "{" || word === "[") {
      stack.push({ key: word === "[" ? 0 : "", isList: word === "[" });
      if (word === "[") visit(keysOf(stack), match.index);
    } else if (word === "}" || word === "]") {
      stack.pop();
    } else if (word === "," && top?.isList) {
      top.key = Number(top.key) + 1;
      visit(keysOf(stack), match.index + 1 + (text.slice(match.index + 1).match(/^\s*/)?.[0].length ?? 0));
    }
  }
}

/** @param {{ key: string | number }[]} stack */
function keysOf(stack) {
  return stack.map((level) => level.key);
}

/** @param {string} word */
function parseKey(word) {
  try {
    return String(JSON.parse(word));
  } catch {
    return word.slice(1);
  }
}
