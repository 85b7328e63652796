// Logs: escape sequences, the ring of lines, the search, and what a resumed log may repeat.

import { assert, assertEquals } from "./assert.js";
import { pieces, plain } from "../assets/job/ansi.js";
import { KEPT, LogBuffer } from "../assets/job/log-buffer.js";
import { Seen } from "../assets/job/log-stream.js";

/** @param {string} text @param {string} [stream] */
const line = (text, stream = "stdout") => ({ execution: "e-1", stream, time: "", line: text });

Deno.test("colours become classes, and every other sequence goes", () => {
  assertEquals(pieces("a \x1b[31mred\x1b[0m \x1b[1;92mgreen\x1b[22m plain\x1b[K"), [
    { text: "a ", style: "" },
    { text: "red", style: "ansi-red" },
    { text: " ", style: "" },
    { text: "green", style: "ansi-green ansi-bold" },
    { text: " plain", style: "ansi-green" },
  ]);
  assertEquals(plain("\x1b]0;title\x07text\x1b[2J\x00"), "text");
});

Deno.test("finer colours are rounded to readable ones", () => {
  assertEquals(pieces("\x1b[38;2;250;10;10mx")[0].style, "ansi-red");
  assertEquals(pieces("\x1b[38;5;21mx")[0].style, "ansi-blue");
  assertEquals(pieces("\x1b[48;5;196;4mx")[0].style, "ansi-underline");
});

Deno.test("a carriage return leaves what was written last", () => {
  assertEquals(plain("10 %\r50 %\r100 %"), "100 %");
  assertEquals(plain("windows\r"), "windows");
});

Deno.test("the ring keeps the newest lines and counts all", () => {
  const buffer = new LogBuffer();
  for (let at = 0; at < 60; at += 1) {
    buffer.append(Array.from({ length: 1000 }, (_, n) => line(`line ${at * 1000 + n}`)));
  }
  assertEquals(buffer.total, 60_000);
  assert(buffer.lines.length >= KEPT && buffer.lines.length < 60_000);
  assertEquals(buffer.visible[buffer.visible.length - 1].line, "line 59999");
  assert(buffer.takeCut() > 0);
  assertEquals(buffer.takeCut(), 0);
  assertEquals(buffer.visible[buffer.indexOf(58_000)].line, "line 58000");
});

Deno.test("the search sees the text without its colours, and only new lines when asked", () => {
  const buffer = new LogBuffer();
  buffer.append([line("one \x1b[31mERR\x1b[0mor"), line("two"), line("an error", "stderr")]);
  assertEquals(buffer.search("error"), [0, 2]);
  assertEquals(buffer.search("error", 1), [2]);
  buffer.show((shown) => shown.stream === "stdout");
  assertEquals(buffer.search("error"), [0]);
});

Deno.test("a resumed log repeats no line and loses none", () => {
  const seen = new Seen();
  const at = (/** @type {number} */ offset, stream = "stdout") => ({ execution: "e-1", stream, offset });
  assert(!seen.hasOffsets);
  assertEquals([at(0), at(5), at(0, "stderr")].map((l) => seen.isNew(l)), [true, true, true]);
  assert(seen.hasOffsets);
  assertEquals(seen.position(), "e-1.stdout.5,e-1.stderr.0");
  assertEquals([at(0), at(5), at(9), at(0, "stderr"), at(3, "stderr")].map((l) => seen.isNew(l)), [
    false,
    false,
    true,
    false,
    true,
  ]);
  assert(seen.isNew({ execution: "e-1", stream: "service" }));
});
