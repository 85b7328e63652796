// The search: verbs before a text, and views that the browser keeps.

import { assert, assertEquals } from "./assert.js";
import { removeView, savedViews, saveView } from "../assets/jobs/views.js";
import { readTyped } from "../assets/search/verbs.js";

Deno.test("a verb before a text acts on what the text finds", () => {
  assertEquals(readTyped(" report "), { verb: null, text: "report" });
  assertEquals(readTyped("stop report"), { verb: "stop", text: "report" });
  assertEquals(readTyped("LOGS  my report"), { verb: "logs", text: "my report" });
  assertEquals(readTyped("drain n-4f2a"), { verb: "drain", text: "n-4f2a" });
  // A job may be called like a verb.
  assertEquals(readTyped("stop"), { verb: null, text: "stop" });
  assertEquals(readTyped("stop "), { verb: null, text: "stop" });
  assertEquals(readTyped("restart report"), { verb: null, text: "restart report" });
});

/** A browser's storage, or what stands for one. */
function storage() {
  /** @type {Map<string, string>} */
  const kept = new Map();
  return /** @type {Storage} */ (/** @type {unknown} */ ({
    getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
    setItem: (/** @type {string} */ key, /** @type {string} */ text) => kept.set(key, text),
  }));
}

Deno.test("views are kept in order of their names, one of each", () => {
  const kept = storage();
  assertEquals(savedViews(kept), []);
  assertEquals(saveView({ name: "mine", query: "labels=a" }, kept), "");
  assertEquals(saveView({ name: "failed", query: "state=Failed" }, kept), "");
  assertEquals(saveView({ name: "mine", query: "labels=b" }, kept), "");
  assertEquals(savedViews(kept), [{ name: "failed", query: "state=Failed" }, {
    name: "mine",
    query: "labels=b",
  }]);
  assertEquals(removeView("failed", kept), "");
  assertEquals(savedViews(kept).map(({ name }) => name), ["mine"]);
});

Deno.test("too many views and a broken storage are said, not lost", () => {
  const kept = storage();
  for (let n = 0; n < 30; n += 1) assertEquals(saveView({ name: `view ${n}`, query: "" }, kept), "");
  assert(saveView({ name: "one more", query: "" }, kept).includes("30 views"));
  assertEquals(saveView({ name: "view 7", query: "state=Failed" }, kept), "");
  kept.setItem("views", "no JSON");
  assertEquals(savedViews(kept), []);
  const full = {
    ...kept,
    setItem: () => {
      throw new Error("full");
    },
  };
  assert(saveView({ name: "a", query: "" }, full).includes("not saved"));
});
