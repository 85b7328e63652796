// The files themselves: a first line that says what each is, a bounded length, and no way to run markup.

import { assertEquals } from "./assert.js";

const ROOT = new URL("../assets/", import.meta.url);
const LONGEST = 400;

/** @param {URL} folder @returns {AsyncGenerator<URL>} */
async function* files(folder) {
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) yield* files(new URL(`${entry.name}/`, folder));
    else yield new URL(entry.name, folder);
  }
}

Deno.test("every file is short, and begins with one sentence about it", async () => {
  /** @type {string[]} */
  const faults = [];
  for await (const file of files(ROOT)) {
    if (!/\.(js|css)$/.test(file.pathname)) continue;
    const name = file.pathname.slice(ROOT.pathname.length);
    const lines = (await Deno.readTextFile(file)).split("\n");
    if (lines.length > LONGEST) faults.push(`${name} has ${lines.length} lines`);
    const first = file.pathname.endsWith(".js") ? /^\/\/ [A-Z].*\.$/ : /^\/\* [A-Z].*\. \*\/$/;
    if (!first.test(lines[0])) faults.push(`${name} begins with '${lines[0]}'`);
  }
  assertEquals(faults, []);
});

Deno.test("nothing turns text into markup or code", async () => {
  /** @type {string[]} */
  const faults = [];
  for await (const file of files(ROOT)) {
    if (!file.pathname.endsWith(".js")) continue;
    const text = await Deno.readTextFile(file);
    const found =
      /\.(innerHTML|outerHTML|srcdoc)\b|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|setAttribute\("(style|on)/
        .exec(text);
    if (found) faults.push(`${file.pathname.slice(ROOT.pathname.length)}: ${found[0]}`);
  }
  assertEquals(faults, []);
});

Deno.test("only comments look like comments, since the service leaves their lines out", async () => {
  /** @type {string[]} */
  const faults = [];
  for await (const file of files(ROOT)) {
    if (!file.pathname.endsWith(".js")) continue;
    const text = await Deno.readTextFile(file);
    for (const [found] of text.matchAll(/`(?:[^`\\]|\\.)*`/g)) {
      if (/\n\s*\/[/*]/.test(found)) faults.push(`${file.pathname.slice(ROOT.pathname.length)}: ${found}`);
    }
  }
  assertEquals(faults, []);
});

Deno.test("every imported module is there", async () => {
  /** @type {string[]} */
  const faults = [];
  for await (const file of files(ROOT)) {
    if (!file.pathname.endsWith(".js")) continue;
    const text = await Deno.readTextFile(file);
    for (const [, target] of text.matchAll(/(?:from |import\(|import )"(\.[^"]+\.js)"/g)) {
      await Deno.stat(new URL(target, file)).catch(() =>
        faults.push(`${file.pathname.slice(ROOT.pathname.length)} imports ${target}`)
      );
    }
  }
  assertEquals(faults, []);
});
