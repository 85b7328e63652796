// What the reference shows of parameters, bodies and schemas: text from the document, never markup.

import { fill, h, tableHead } from "../dom.js";
import { fields, inner, limits, nameOf, resolve, words } from "./document.js";

/** @import { Json } from "../../types.d.ts" */

/** Text in which backquotes mark code. @param {string} text @param {string} [style] */
export function prose(text, style) {
  const parts = text.split("\u0060").map((part, at) => at % 2 ? h("code", null, part) : part);
  return h("p", { class: style }, parts);
}

/** @param {Json[]} parameters */
export function parameterTable(parameters) {
  const rows = parameters.map((parameter) =>
    h(
      "tr",
      { class: "flat" },
      h("td", { class: "fit" }, h("code", null, parameter.name), parameter.required ? " *" : null),
      h("td", { class: "fit mid" }, parameter.in),
      h("td", null, about(parameter.schema, parameter.description)),
    )
  );
  return h(
    "table",
    { "aria-label": "Parameters" },
    tableHead(["fit", "Name"], ["fit mid", "In"], ["", "Meaning"]),
    h("tbody", null, rows),
  );
}

/** @param {Json} schema @param {string} [description] */
function about(schema, description) {
  const bounds = limits(schema);
  return [
    h(
      "p",
      null,
      h("code", null, words(schema)),
      bounds ? h("span", { class: "muted" }, `, ${bounds}`) : null,
    ),
    description ? prose(description, "wrap") : null,
  ];
}

/** The bodies of a request or response, by content type. @param {Json} document @param {Json} content */
export function bodies(document, content) {
  return Object.entries(content ?? {}).map(([type, body]) =>
    h(
      "div",
      null,
      h("p", { class: "small muted" }, type, ": ", h("code", null, words(body.schema))),
      inner(body.schema).map((schema) => schemaView(document, schema, true)),
    )
  );
}

/**
 * One schema; what it refers to is built when it is opened, because schemas may refer to each other.
 * @param {Json} document @param {Json} schema @param {boolean} isOpen
 * @returns {HTMLElement}
 */
export function schemaView(document, schema, isOpen = false) {
  const name = nameOf(schema) || "object";
  const content = h("div");
  const view = h("details", { class: "schema", prop: { open: isOpen } }, h("summary", null, name), content);
  const build = () => view.open && !content.childElementCount && fill(content, schemaBody(document, schema));
  view.addEventListener("toggle", build);
  build();
  return view;
}

/** @param {Json} document @param {Json} schema */
function schemaBody(document, schema) {
  const own = resolve(document, schema);
  const known = fields(document, own);
  const description = own.description ? prose(own.description) : null;
  if (!known.length) {
    return [
      description,
      h("p", null, h("code", null, words({ ...own, $ref: undefined })), " ", limits(own)),
      inner({ ...own, $ref: undefined }).filter((part) => part.$ref).map((part) =>
        schemaView(document, part)
      ),
    ].flat();
  }
  const rows = known.map((field) =>
    h(
      "tr",
      { class: "flat" },
      h("td", { class: "fit" }, h("code", null, field.name), field.required ? " *" : null),
      h(
        "td",
        null,
        about(field.schema, field.schema.description),
        inner(field.schema).map((part) => schemaView(document, part)),
      ),
    )
  );
  return [description, h("table", { "aria-label": nameOf(schema) || "Fields" }, h("tbody", null, rows))];
}
