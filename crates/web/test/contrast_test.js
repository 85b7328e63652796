// Measures the contrast of every pair of colours that the style sheets put together, in both schemes.

import { assert, assertEquals } from "./assert.js";

const LEAST = 4.5;
const css = await Deno.readTextFile(new URL("../assets/tokens.css", import.meta.url));

/** @type {Map<string, [string, string]>} */
const tokens = new Map();
for (
  const [, name, light, dark] of css.matchAll(/--([\w-]+): light-dark\((#[0-9a-f]{6}), (#[0-9a-f]{6})\)/g)
) {
  tokens.set(name, [light, dark]);
}

/** @param {string} hex */
function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
    .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

/** @param {string} a @param {string} b */
function contrast(a, b) {
  const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

const SURFACES = ["page", "side", "raised", "hover", "selected"];
const STATES = ["waiting", "running", "completed", "failed", "attention"];

/** @type {[string, string][]} */
const pairs = [
  ...["text", "muted", "accent", ...STATES].flatMap((text) =>
    SURFACES.map((on) => /** @type {[string, string]} */ ([text, on]))
  ),
  ...STATES.flatMap((
    state,
  ) => /** @type {[string, string][]} */ ([[state, `${state}-tint`], ["text", `${state}-tint`], [
    "accent",
    `${state}-tint`,
  ]])),
  ["muted", "waiting-tint"],
  ["on-accent", "accent-fill"],
  ["text", "mark"],
  ["text", "mark-current"],
  ...[...tokens.keys()].filter((name) => /^(hue|ansi)-/.test(name)).flatMap((name) =>
    ["side", "hover", "selected"].map((on) => /** @type {[string, string]} */ ([name, on]))
  ),
];

Deno.test("every pair of text and surface has a contrast of 4.5 in both schemes", () => {
  const poor = [];
  for (const [text, surface] of pairs) {
    const front = tokens.get(text);
    const back = tokens.get(surface);
    assert(front && back, `${text} or ${surface} is no token`);
    for (const scheme of [0, 1]) {
      const measured = contrast(front[scheme], back[scheme]);
      if (measured < LEAST) {
        poor.push(`${text} on ${surface}, ${scheme ? "dark" : "light"}: ${measured.toFixed(2)}`);
      }
    }
  }
  assertEquals(poor, []);
});

Deno.test("borders of controls have a contrast of 3 with the page", () => {
  const line = tokens.get("line-strong");
  const page = tokens.get("page");
  assert(line && page);
  for (const scheme of [0, 1]) assert(contrast(line[scheme], page[scheme]) >= 3);
});
