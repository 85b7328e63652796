// The API reference: the OpenAPI document of this service, one operation at a time.

import { get } from "../api.js";
import { fill, h, tableHead } from "../dom.js";
import { failure, loading } from "../notes.js";
import { groups, operations, resolve } from "../reference/document.js";
import { bodies, parameterTable, prose } from "../reference/parts.js";
import { retitle } from "../router.js";

/** @import { Json, Shown, Visit } from "../../types.d.ts" */

const DOCUMENT = "/api/v1/openapi.json";

/** @param {Visit} visit @returns {Shown} */
export default function reference({ params, signal }) {
  const element = h("section", { class: "reference" }, loading());
  let wanted = params.operation;
  /** @type {Json} */
  let document = null;
  const show = () => {
    const operation = operations(document).find(({ id }) => id === wanted);
    if (wanted && !operation) return fill(element, unknown(wanted));
    fill(element, operation ? operationView(document, operation) : overview(document));
    retitle(operation ? operation.summary : "API reference");
    shown.title = operation ? operation.summary : "API reference";
  };
  const load = async () => {
    try {
      document = await get(DOCUMENT, signal);
      show();
    } catch (error) {
      if (!signal.aborted) fill(element, failure(error, () => void load()));
    }
  };
  /** @type {Shown} */
  const shown = {
    title: "API reference",
    element,
    update: (next) => {
      wanted = next.params.operation;
      if (document) show();
      scrollTo(0, 0);
      return true;
    },
  };
  void load();
  return shown;
}

/** @param {Json} document */
function overview(document) {
  const sections = groups(document).map((group) =>
    h(
      "section",
      { class: "section" },
      h("header", null, h("h2", null, group.name)),
      prose(group.description, "muted"),
      h(
        "table",
        { class: "plain", "aria-label": group.name },
        tableHead(["", "Operation"], ["fit", "Method"], ["", "Path"]),
        h("tbody", null, group.operations.map(operationRow)),
      ),
    )
  );
  return h(
    "div",
    null,
    h("header", { class: "title" }, h("h1", null, "API reference")),
    h("p", { class: "muted" }, `${document.info?.title ?? "HTTP API"} ${document.info?.version ?? ""}`),
    h(
      "p",
      null,
      h("a", { href: DOCUMENT, target: "_blank", rel: "noopener" }, "OpenAPI document, for programs"),
    ),
    sections,
  );
}

/** @param {import("../reference/document.js").Operation} operation */
function operationRow({ id, method, path, summary }) {
  return h(
    "tr",
    null,
    h("td", null, h("a", { class: "main", href: `/reference/${encodeURIComponent(id)}` }, summary)),
    h("td", { class: "fit" }, h("code", null, method)),
    h("td", { class: "wrap" }, h("code", null, path)),
  );
}

/** @param {Json} document @param {import("../reference/document.js").Operation} found */
function operationView(document, { method, path, summary, group, operation }) {
  const parameters = (operation.parameters ?? []).map((/** @type {Json} */ one) => resolve(document, one));
  const request = operation.requestBody ? resolve(document, operation.requestBody) : null;
  const responses = Object.entries(operation.responses ?? {});
  return h(
    "div",
    null,
    h("header", { class: "title" }, h("h1", null, summary)),
    h("p", { class: "small" }, h("a", { href: "/reference" }, "All operations")),
    h("p", { class: "small muted" }, group),
    h("p", { class: "wrap" }, h("code", null, `${method} ${path}`)),
    operation.description ? prose(operation.description) : null,
    parameters.length ? part("Parameters", parameterTable(parameters)) : null,
    request
      ? part(
        "Request body",
        request.description ? prose(request.description) : null,
        ...bodies(document, request.content),
      )
      : null,
    part(
      "Responses",
      ...responses.map(([status, response]) => {
        const said = resolve(document, response);
        return h(
          "div",
          { class: "response" },
          h("h3", null, h("code", null, status), " "),
          prose(said.description ?? ""),
          bodies(document, said.content),
        );
      }),
    ),
    h("p", { class: "small muted" }, "Fields and parameters with * are required."),
  );
}

/** @param {string} title @param {...(Node | null)} content */
function part(title, ...content) {
  return h("section", { class: "section" }, h("header", null, h("h2", null, title)), ...content);
}

/** @param {string} wanted */
function unknown(wanted) {
  return [
    h("header", { class: "title" }, h("h1", null, "There is no such operation")),
    h(
      "div",
      { class: "empty" },
      h("p", null, `The service has no operation ${wanted}.`),
      h("p", null, h("a", { href: "/reference" }, "All operations")),
    ),
  ];
}
