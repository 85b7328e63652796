// What an exit code means, and what a failed execution says first.

/** @import { Execution } from "../../types.d.ts" */

/** Signals by the exit code of what they end, 128 and their number. @type {Record<number, string>} */
const SIGNALS = {
  129: "SIGHUP",
  130: "SIGINT",
  131: "SIGQUIT",
  132: "SIGILL",
  134: "SIGABRT",
  135: "SIGBUS",
  136: "SIGFPE",
  137: "SIGKILL",
  139: "SIGSEGV",
  141: "SIGPIPE",
  143: "SIGTERM",
};

/** Codes by which shells and the Engine say that nothing could be run. @type {Record<number, string>} */
const REFUSALS = { 126: "not executable", 127: "command not found" };

/** Why a process ended, in words: `exited with 3`, `exited with 139 (SIGSEGV)`. @param {number} code */
export function exitWords(code) {
  const meaning = REFUSALS[code] ?? SIGNALS[code];
  return `exited with ${code}${meaning ? ` (${meaning})` : ""}`;
}

/** The message of a run whose exit code is all there is to say. */
const CODE = /^exit code (-?\d+)(?: \([^)]*\))?(?:; )?/;

/** What happened to a failed execution, and what its message adds. @param {Execution} execution */
export function whatHappened({ ComputeState: { Message }, RunOutput }) {
  const found = CODE.exec(Message);
  if (found) return { what: exitWords(Number(found[1])), more: Message.slice(found[0].length) };
  const code = RunOutput?.exitCode ?? -1;
  return code > 0 ? { what: exitWords(code), more: Message } : { what: "failed", more: Message };
}

/** Whether it ended by a SIGKILL that nothing explains. @param {Execution} execution */
export function isKill(execution) {
  return whatHappened(execution).what === exitWords(137);
}

/**
 * The last lines of what a failed execution printed: of its errors, or else of its output.
 * @param {any} output @param {number} most
 * @returns {{ stream: "stderr" | "stdout", lines: string[], isCut: boolean } | null}
 */
export function lastLines(output, most) {
  for (const stream of /** @type {const} */ (["stderr", "stdout"])) {
    const text = String(output?.[`${stream}tail`] || output?.[stream] || "").replace(/\r?\n$/, "");
    if (!text.trim()) continue;
    const lines = text.split("\n");
    const isPart = Boolean(output[`${stream}truncated`] || output[`${stream}tail`]);
    return { stream, lines: lines.slice(-most), isCut: isPart || lines.length > most };
  }
  return null;
}

/**
 * Failures that happened in the same way, the most frequent first.
 * @param {Execution[]} executions
 * @returns {{ first: Execution, count: number, nodes: string[] }[]}
 */
export function alike(executions) {
  /** @type {Map<string, { first: Execution, count: number, nodes: string[] }>} */
  const found = new Map();
  for (const execution of executions) {
    const { what, more } = whatHappened(execution);
    const key = `${what}\n${more}`;
    const group = found.get(key) ?? { first: execution, count: 0, nodes: [] };
    group.count += 1;
    if (execution.NodeID && !group.nodes.includes(execution.NodeID)) group.nodes.push(execution.NodeID);
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => b.count - a.count);
}
