// The words that make a search act: `logs NAME`, `stop NAME` and `drain NAME`.

/** @typedef {"logs" | "stop" | "drain"} Verb */

/** @type {Verb[]} */
const VERBS = ["logs", "stop", "drain"];

/**
 * Splits what was typed into a verb and the text to find; a word alone is a text.
 * @param {string} typed @returns {{ verb: Verb | null, text: string }}
 */
export function readTyped(typed) {
  const [, word, rest] = /^(\S+)\s+(\S.*)$/s.exec(typed.trim()) ?? [];
  const verb = VERBS.find((known) => known === word?.toLowerCase()) ?? null;
  return { verb, text: verb ? rest : typed.trim() };
}
