// Where each job of a graph is drawn: a layer after those of all jobs that it waits for.

/** @import { Graph } from "../../types.d.ts" */

/** @typedef {{ job: Graph["Jobs"][number], layer: number, row: number }} Place */
/** @typedef {{ from: Place, to: Place, condition: string, indexes?: string }} Line */

/**
 * Layers from left to right; within one, jobs are near those that they wait for. Jobs outside the
 * graph are not drawn.
 * @param {Pick<Graph, "Jobs" | "Edges">} graph
 * @returns {{ places: Place[], lines: Line[], layers: number, rows: number }}
 */
export function layout({ Jobs, Edges }) {
  /** @type {Map<string, Place>} */
  const places = new Map(Jobs.map((job) => [job.JobID, { job, layer: 0, row: 0 }]));
  /** @type {Map<string, string[]>} */
  const after = new Map();
  /** @type {Map<string, number>} */
  const open = new Map(Jobs.map(({ JobID }) => [JobID, 0]));
  /** @type {Line[]} */
  const lines = [];
  for (const { From, To, Condition, Indexes } of Edges) {
    const [from, to] = [places.get(From), places.get(To)];
    if (!from || !to) continue;
    lines.push({ from, to, condition: Condition, indexes: Indexes });
    after.set(From, [...after.get(From) ?? [], To]);
    open.set(To, (open.get(To) ?? 0) + 1);
  }
  // The service refuses cycles, so every job has its turn.
  const turn = Jobs.filter(({ JobID }) => !open.get(JobID)).map(({ JobID }) => JobID);
  for (const id of turn) {
    const place = places.get(id);
    if (!place) continue;
    for (const next of after.get(id) ?? []) {
      const later = places.get(next);
      if (later) later.layer = Math.max(later.layer, place.layer + 1);
      const left = (open.get(next) ?? 0) - 1;
      open.set(next, left);
      if (left === 0) turn.push(next);
    }
  }
  /** @type {Map<Place, Place[]>} */
  const before = new Map();
  for (const { from, to } of lines) before.set(to, [...before.get(to) ?? [], from]);
  /** @type {Place[][]} */
  const layers = [];
  for (const place of places.values()) (layers[place.layer] ??= []).push(place);
  for (const layer of layers) {
    const wish = new Map(layer.map((place, at) => {
      const named = before.get(place) ?? [];
      return [place, named.length ? named.reduce((sum, { row }) => sum + row, 0) / named.length : at];
    }));
    layer.sort((one, other) => (wish.get(one) ?? 0) - (wish.get(other) ?? 0));
    layer.forEach((place, row) => place.row = row);
  }
  const rows = layers.reduce((most, layer) => Math.max(most, layer.length), 0);
  return { places: [...places.values()], lines, layers: layers.length, rows };
}
