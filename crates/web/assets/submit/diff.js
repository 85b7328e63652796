// The differences of two texts, line by line.

/** @typedef {{ kind: "same" | "added" | "removed", text: string }} Line */

// Two texts that differ in more lines than this are shown as replaced; the table of the comparison would be too large.
const MOST = 2000;

/** @param {string} before @param {string} after @returns {Line[]} */
export function diff(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (
    tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]
  ) tail += 1;
  const same = (/** @type {string} */ text) => /** @type {Line} */ ({ kind: "same", text });
  return [
    ...a.slice(0, head).map(same),
    ...middle(a.slice(head, a.length - tail), b.slice(head, b.length - tail)),
    ...a.slice(a.length - tail).map(same),
  ];
}

/** The longest common subsequence decides which lines stay. @param {string[]} a @param {string[]} b @returns {Line[]} */
function middle(a, b) {
  const replaced = () => [
    ...a.map((text) => ({ kind: /** @type {const} */ ("removed"), text })),
    ...b.map((text) => ({ kind: /** @type {const} */ ("added"), text })),
  ];
  if (!a.length || !b.length || a.length > MOST || b.length > MOST) return replaced();
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i * width + j] = a[i] === b[j]
        ? table[(i + 1) * width + j + 1] + 1
        : Math.max(table[(i + 1) * width + j], table[i * width + j + 1]);
    }
  }
  /** @type {Line[]} */
  const lines = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      lines.push({ kind: "same", text: a[i] });
      i += 1;
      j += 1;
    } else if (i < a.length && (j >= b.length || table[(i + 1) * width + j] >= table[i * width + j + 1])) {
      lines.push({ kind: "removed", text: a[i++] });
    } else {
      lines.push({ kind: "added", text: b[j++] });
    }
  }
  return lines;
}

/** Only the changes, each with some lines around it. @param {Line[]} lines @param {number} around @returns {(Line | null)[]} null stands for lines left out */
export function hunks(lines, around) {
  const near = lines.map((_, at) =>
    lines.slice(Math.max(0, at - around), at + around + 1).some((line) => line.kind !== "same")
  );
  /** @type {(Line | null)[]} */
  const kept = [];
  lines.forEach((line, at) => {
    if (near[at]) kept.push(line);
    else if (kept.length === 0 || kept[kept.length - 1] !== null) kept.push(null);
  });
  return kept;
}
