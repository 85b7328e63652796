// Assertions for the unit tests; the tests need nothing from a network.

/** @param {unknown} value @param {string} [message] @returns {asserts value} */
export function assert(value, message = "is false") {
  if (!value) throw new Error(message);
}

/** @param {unknown} actual @param {unknown} expected @param {string} [message] */
export function assertEquals(actual, expected, message = "") {
  const [a, b] = [actual, expected].map((value) =>
    Deno.inspect(value, { depth: 10, sorted: true, strAbbreviateSize: 1000 })
  );
  if (a !== b) throw new Error(`${message}\nexpected ${b}\nactual   ${a}`);
}
