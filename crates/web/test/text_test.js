// Times, quantities, names and IDs as people read them.

import { assertEquals } from "./assert.js";
import { bytes, cores, kindOfId, plural, quoted, short, slotOf, visible } from "../assets/format.js";
import { ratio } from "../assets/elements/bar.js";
import { spanOf } from "../assets/elements/load.js";
import { ago, aroundTimes, duration, local, millis, moment } from "../assets/time.js";

Deno.test("durations have their two largest units", () => {
  assertEquals([0, 999, 4_250, 59_999, 60_000, 200_000, 3_600_000, 187_200_000].map(duration), [
    "0 ms",
    "999 ms",
    "4.2 s",
    "59 s",
    "1 min",
    "3 min 20 s",
    "1 h",
    "2 d 4 h",
  ]);
});

Deno.test("a moment is relative in one unit, and may lie ahead", () => {
  const now = 1_000_000_000;
  assertEquals([0, 1_999, 12_000, 180_000, 7_200_000, 5 * 86_400_000].map((ms) => ago(now - ms, now)), [
    "now",
    "now",
    "12 s ago",
    "3 min ago",
    "2 h ago",
    "5 d ago",
  ]);
  assertEquals(ago(now + 30_000, now), "in 30 s");
});

Deno.test("nanoseconds and RFC 3339 are the same moment", () => {
  assertEquals(Math.floor(millis(1795250966600576401)), millis("2026-11-21T08:49:26.600Z"));
  assertEquals([millis(0), millis(""), millis(undefined), millis("nothing")], [0, 0, 0, 0]);
});

Deno.test("a moment is written with nine digits and an offset", () => {
  assertEquals(moment(1795250966600576512, 1000), "2026-11-21T08:49:26.600577512Z");
});

Deno.test("quantities are short", () => {
  assertEquals([0, 999, 1500, 160e6, 67.8e9, 512e9].map(bytes), [
    "0 B",
    "999 B",
    "1.5 kB",
    "160 MB",
    "67.8 GB",
    "512 GB",
  ]);
  assertEquals([0, 0.05, 0.5, 4].map(cores), ["0", "50m", "0.5", "4"]);
  assertEquals([ratio("1 GB", "4 GB"), ratio("160 MB", "8 GB"), ratio("0 B", "8 GB")], [
    "1 of 4 GB",
    "160 MB of 8 GB",
    "0 of 8 GB",
  ]);
  assertEquals([plural(1, "node"), plural(2500, "node")], ["1 node", "2,500 nodes"]);
});

Deno.test("IDs are recognised from eight digits on, and shortened", () => {
  const id = "j-62df246c-d5cc-4c6d-aef9-bd480ed3b259";
  assertEquals([
    kindOfId(id),
    kindOfId("e-62df246c"),
    kindOfId(" N-62DF246C "),
    kindOfId("j-62df"),
    kindOfId("hello"),
  ], [
    "job",
    "execution",
    "node",
    null,
    null,
  ]);
  assertEquals([short(id), short("web")], ["j-62df246c", "web"]);
});

Deno.test("the slot is the index in an execution's name", () => {
  assertEquals([slotOf("words[3]"), slotOf("a[1][22]"), slotOf("plain")], [3, 22, 0]);
});

Deno.test("words are quoted for the shell", () => {
  assertEquals([quoted("plain-1.txt"), quoted("two words"), quoted("it's $HOME")], [
    "plain-1.txt",
    "'two words'",
    `'it'\\''s $HOME'`,
  ]);
});

Deno.test("the chart of the load spans the samples that there are", () => {
  /** @param {number[]} seconds */
  const samples = (...seconds) => seconds.map((at) => ({ Time: new Date(at * 1000).toISOString() }));
  const span = (/** @type {number[]} */ ...seconds) => spanOf(/** @type {any} */ (samples(...seconds)), 3600);
  assertEquals(span(10, 20), 60_000);
  assertEquals(span(10, 300, 610), 600_000);
  assertEquals(span(10, 7200), 3_600_000);
});

Deno.test("text of others cannot look like another text", () => {
  assertEquals(visible("\u202etxt.exe"), "\\u{202e}txt.exe");
  assertEquals(visible("a\u061c\u200e\u2029\u2066b"), "a\\u{061c}\\u{200e}\\u{2029}\\u{2066}b");
  assertEquals(visible("größer שלום 👩\u200d👩"), "größer שלום 👩\u200d👩");
});

Deno.test("times within texts are found, and shown as local ones without what is obvious", () => {
  const text =
    "[0]: exit code 1 (1 node, 5 tries since 2026-11-21T08:49:26Z); next try at 2026-11-21T08:50:00.25Z";
  assertEquals(aroundTimes(text), [
    "[0]: exit code 1 (1 node, 5 tries since ",
    "2026-11-21T08:49:26Z",
    "); next try at ",
    "2026-11-21T08:50:00.25Z",
    "",
  ]);
  assertEquals(aroundTimes("file-2026-11-21T08:49:26Zulu"), ["file-2026-11-21T08:49:26Zulu"]);
  const at = new Date(2026, 10, 21, 8, 49, 26).getTime();
  assertEquals(local(at, at + 3_600_000), "08:49:26");
  assertEquals(local(at, at + 86_400_000).endsWith(", 08:49:26"), true);
  assertEquals(local(at, at + 400 * 86_400_000).includes("2026"), true);
});
