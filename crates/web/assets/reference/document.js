// Reads an OpenAPI document: operations by group, and what a schema allows, in words.

/** @import { Json } from "../../types.d.ts" */

/** @typedef {{ id: string, method: string, path: string, summary: string, group: string, operation: Json }} Operation */
/** @typedef {{ name: string, description: string, operations: Operation[] }} Group */

const METHODS = ["get", "put", "post", "delete", "patch", "head", "options", "trace"];

/** All operations in the order of the document's groups. @param {Json} document @returns {Group[]} */
export function groups(document) {
  const found = operations(document);
  return (document.tags ?? []).map((/** @type {Json} */ { name, description }) => ({
    name,
    description: description ?? "",
    operations: found.filter(({ group }) => group === name),
  })).filter((/** @type {Group} */ group) => group.operations.length);
}

/** @param {Json} document @returns {Operation[]} */
export function operations(document) {
  return Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
      id: item[method].operationId,
      method: method.toUpperCase(),
      path,
      summary: item[method].summary ?? item[method].operationId,
      group: item[method].tags?.[0] ?? "",
      operation: item[method],
    }))
  );
}

/** Follows references, a bounded number of them. @param {Json} document @param {Json} part @returns {Json} */
export function resolve(document, part) {
  let found = part;
  for (let step = 0; step < 8 && found?.$ref; step++) {
    const at = String(found.$ref).replace(/^#\//, "").split("/");
    found = at.reduce((inner, key) => inner?.[key.replaceAll("~1", "/").replaceAll("~0", "~")], document);
  }
  return found ?? {};
}

/** The name of the schema that a reference leads to. @param {Json} part */
export function nameOf(part) {
  return part?.$ref ? String(part.$ref).split("/").pop() ?? "" : "";
}

/** What a value may be, in a few words. @param {Json} schema @returns {string} */
export function words(schema) {
  if (!schema || schema === true) return "anything";
  if (schema.$ref) return nameOf(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((/** @type {Json} */ value) => JSON.stringify(value)).join(" | ");
  const either = schema.oneOf ?? schema.anyOf;
  if (either) return [...new Set(either.map(words))].join(" or ");
  if (schema.allOf) return schema.allOf.map(words).join(" and ");
  const types = [schema.type ?? []].flat();
  return types.map((type) => typeWords(type, schema)).join(" or ") || "anything";
}

/** @param {string} type @param {Json} schema */
function typeWords(type, schema) {
  if (type === "array") return `array of ${schema.items ? words(schema.items) : "anything"}`;
  if (type === "object" && schema.additionalProperties) {
    return `map to ${words(schema.additionalProperties)}`;
  }
  if (type === "string" && schema.format) return `string (${schema.format})`;
  return type;
}

/** The limits of a value, such as `default 10, at most 1000`. @param {Json} schema */
export function limits(schema) {
  /** @type {string[]} */
  const found = [];
  /** @param {string} key @param {string} word */
  const say = (key, word) => schema?.[key] !== undefined && found.push(`${word} ${schema[key]}`);
  if (schema?.default !== undefined) found.push(`default ${JSON.stringify(schema.default)}`);
  say("minimum", "at least");
  say("maximum", "at most");
  say("minLength", "length at least");
  say("maxLength", "length at most");
  say("minItems", "items at least");
  say("maxItems", "items at most");
  say("pattern", "pattern");
  return found.join(", ");
}

/**
 * The fields of a schema, those of its parts included.
 * @param {Json} document @param {Json} schema
 * @returns {{ name: string, required: boolean, schema: Json }[]}
 */
export function fields(document, schema) {
  const own = resolve(document, schema);
  const required = new Set(own.required ?? []);
  const direct = Object.entries(own.properties ?? {}).map(([name, field]) => ({
    name,
    required: required.has(name),
    schema: field,
  }));
  const parts = (own.allOf ?? []).flatMap((/** @type {Json} */ part) => fields(document, part));
  return [...direct, ...parts];
}

/** The schemas that a value is made of: itself, its items, its alternatives. @param {Json} schema @returns {Json[]} */
export function inner(schema) {
  if (!schema || schema.$ref) return schema ? [schema] : [];
  return [schema.items, schema.additionalProperties, ...(schema.oneOf ?? []), ...(schema.anyOf ?? [])]
    .filter((part) => part && part !== true)
    .flatMap(inner)
    .concat(schema.properties || schema.allOf ? [schema] : []);
}
