// Where the jobs of a graph are drawn.

import { assertEquals } from "./assert.js";
import { layout } from "../assets/graph/layout.js";

/** @param {string[]} names @param {[string, string][]} edges */
function graph(names, edges) {
  return {
    Jobs: names.map((name) => ({ Name: name, JobID: name, State: "Queued", Message: "" })),
    Edges: edges.map(([From, To]) => ({ From, To, Condition: "Completed" })),
  };
}

/** @param {ReturnType<typeof layout>} found */
const layersOf = ({ places }) => Object.fromEntries(places.map(({ job, layer }) => [job.Name, layer]));

Deno.test("a job is in a layer after all that it waits for", () => {
  const edges =
    /** @type {[string, string][]} */ ([["a", "b"], ["b", "c"], ["a", "c"], ["x", "c"], ["gone", "x"]]);
  const found = layout(graph(["c", "x", "a", "b"], edges));
  assertEquals(layersOf(found), { a: 0, x: 0, b: 1, c: 2 });
  assertEquals([found.layers, found.rows, found.lines.length], [3, 2, 4]);
});

Deno.test("a line knows whether each index waits for the same one", () => {
  const { Jobs, Edges } = graph(["a", "b", "c"], [["a", "b"], ["a", "c"]]);
  const found = layout({ Jobs, Edges: [{ ...Edges[0], Indexes: "Same" }, Edges[1]] });
  assertEquals(found.lines.map(({ indexes }) => indexes), ["Same", undefined]);
});

Deno.test("a thousand jobs in one chain have a thousand layers, and no two share a place", () => {
  const names = Array.from({ length: 1000 }, (_, at) => `j${at}`);
  const edges = names.slice(1).map((name, at) => /** @type {[string, string]} */ ([names[at], name]));
  const found = layout(graph(names.toReversed(), edges));
  assertEquals([found.layers, found.rows], [1000, 1]);
  const wide = layout(graph(names, names.slice(1).map((name) => ["j0", name])));
  assertEquals([wide.layers, wide.rows], [2, 999]);
  assertEquals(new Set(wide.places.map(({ layer, row }) => `${layer} ${row}`)).size, 1000);
});
