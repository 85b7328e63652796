// The API reference: operations are grouped as the document groups them, and schemas are put into words.

import { assertEquals } from "./assert.js";
import { fields, groups, inner, limits, resolve, words } from "../assets/reference/document.js";

const DOCUMENT = {
  tags: [{ name: "Jobs", description: "Jobs." }, { name: "Empty" }],
  paths: {
    "/jobs/{id}": {
      delete: { operationId: "stopJob", tags: ["Jobs"], summary: "Stop Job" },
      get: { operationId: "describeJob", tags: ["Jobs"] },
    },
  },
  components: {
    schemas: {
      Named: { type: "object", required: ["Name"], properties: { Name: { type: "string" } } },
      Job: {
        allOf: [{ $ref: "#/components/schemas/Named" }, {
          type: "object",
          properties: { Count: { type: "integer" } },
        }],
      },
      Loop: { $ref: "#/components/schemas/Loop" },
    },
  },
};

Deno.test("groups without operations are left out, and a method is an operation", () => {
  const found = groups(DOCUMENT);
  assertEquals(found.map(({ name }) => name), ["Jobs"]);
  assertEquals(found[0].operations.map(({ id, method, summary }) => [id, method, summary]), [
    ["describeJob", "GET", "describeJob"],
    ["stopJob", "DELETE", "Stop Job"],
  ]);
});

Deno.test("a schema that refers to itself ends", () => {
  assertEquals(words(resolve(DOCUMENT, { $ref: "#/components/schemas/Loop" })), "Loop");
  assertEquals(resolve(DOCUMENT, { $ref: "#/components/schemas/None" }), {});
});

Deno.test("the fields of a schema include those of its parts", () => {
  const found = fields(DOCUMENT, { $ref: "#/components/schemas/Job" });
  assertEquals(found.map(({ name, required }) => [name, required]), [["Name", true], ["Count", false]]);
});

Deno.test("types, alternatives and limits are words", () => {
  assertEquals(words({ type: ["string", "null"] }), "string or null");
  assertEquals(words({ oneOf: [{ $ref: "#/a/Job" }, { type: "null" }] }), "Job or null");
  assertEquals(words({ type: "array", items: { enum: ["a", 1] } }), 'array of "a" | 1');
  assertEquals(words({ type: "object", additionalProperties: { type: "string" } }), "map to string");
  assertEquals(words(true), "anything");
  assertEquals(limits({ default: 10, minimum: 0, maximum: 1000 }), "default 10, at least 0, at most 1000");
  assertEquals(inner({ type: "array", items: { $ref: "#/a/Job" } }), [{ $ref: "#/a/Job" }]);
});
