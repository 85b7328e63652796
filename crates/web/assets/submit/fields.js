// The fields of the form: where each stands in the job, and how its text is read and written.

/** @import { Json } from "../../types.d.ts" */

/**
 * @typedef {{
 *   path: string, name: string, kind: "text" | "number" | "lines" | "pairs" | "choice" | "image" | "module" | "constraints" | "paths",
 *   hint?: string, options?: [string, string][], engine?: "docker" | "wasm", placeholder?: string, list?: string,
 * }} Field `engine` shows the field for that engine alone, `list` is the ID of a list of suggestions
 */

/** @type {{ title: string, open: boolean, fields: Field[] }[]} */
export const GROUPS = [
  {
    title: "What runs",
    open: true,
    fields: [
      { path: "Name", name: "Name", kind: "text", placeholder: "a generated name" },
      {
        path: "Tasks[0].Engine.Type",
        name: "Engine",
        kind: "choice",
        options: [["docker", "Docker image"], ["wasm", "WebAssembly module"]],
      },
      {
        path: "Tasks[0].Engine.Params.Image",
        name: "Image",
        kind: "text",
        engine: "docker",
        placeholder: "busybox",
      },
      {
        path: "Tasks[0].Engine.Params.EntryModule",
        name: "Module",
        kind: "module",
        engine: "wasm",
        hint: "A file travels with the job, up to 7 MB; a larger one is fetched from an address.",
      },
      {
        path: "Tasks[0].Engine.Params.Parameters",
        name: "Arguments, one a line",
        kind: "lines",
        placeholder: "echo\nhello",
      },
      { path: "Tasks[0].Env", name: "Environment, one a line", kind: "pairs", placeholder: "KEY=value" },
    ],
  },
  {
    title: "How often and where",
    open: true,
    fields: [
      {
        path: "Type",
        name: "Type",
        kind: "choice",
        options: [["batch", "batch: runs to its end"], ["ops", "ops: once on every node"], [
          "service",
          "service: keeps running",
        ], ["daemon", "daemon: runs on every node"]],
      },
      { path: "Count", name: "Executions", kind: "number" },
      { path: "MaxRunning", name: "Of these, at the same time", kind: "number", placeholder: "all" },
      {
        path: "ConcurrencyGroups",
        name: "Concurrency groups, one a line",
        kind: "lines",
        placeholder: "db",
        hint: "Of batch and ops jobs; they limit what several jobs run at the same time.",
      },
      {
        path: "MaxFailed",
        name: "Failed executions that the job may have",
        kind: "number",
        placeholder: "0",
        hint: "Of batch and ops jobs; -1 for any number.",
      },
      {
        path: "Constraints",
        name: "Nodes, one condition a line",
        kind: "constraints",
        placeholder: "zone = a\ngpu exists",
        hint: "key = value, key != value, key in a,b, key exists, key gt 4",
      },
    ],
  },
  {
    title: "Resources of each execution",
    open: true,
    fields: [
      { path: "Tasks[0].Resources.CPU", name: "CPU", kind: "text", placeholder: "0.5" },
      { path: "Tasks[0].Resources.Memory", name: "Memory", kind: "text", placeholder: "512MB" },
      { path: "Tasks[0].Resources.Disk", name: "Disk", kind: "text", placeholder: "1GB" },
      { path: "Tasks[0].Resources.GPU", name: "GPUs", kind: "text", placeholder: "0" },
    ],
  },
  {
    title: "More",
    open: false,
    fields: [
      { path: "Namespace", name: "Namespace", kind: "text", placeholder: "default", list: "namespaces" },
      { path: "Priority", name: "Priority, 0 to 100", kind: "number", placeholder: "50" },
      { path: "Labels", name: "Labels, one a line", kind: "pairs", placeholder: "team=docs" },
      {
        path: "Tasks[0].Network.Type",
        name: "Network",
        kind: "choice",
        options: [["", "None"], ["Full", "Full"], ["HTTP", "HTTP, named domains"]],
      },
      { path: "Tasks[0].Network.Domains", name: "Domains, one a line", kind: "lines" },
      {
        path: "Tasks[0].ResultPaths",
        name: "Result paths, one a line",
        kind: "paths",
        placeholder: "outputs:/outputs",
      },
      {
        path: "Tasks[0].Publisher.Type",
        name: "Keep results",
        kind: "choice",
        options: [["", "no"], ["local", "on the node (local)"], ["s3", "s3 (parameters in the text)"], [
          "ipfs",
          "ipfs",
        ]],
      },
      { path: "Tasks[0].Timeouts.ExecutionTimeout", name: "Time limit of a run, in seconds", kind: "number" },
      { path: "Tasks[0].Timeouts.QueueTimeout", name: "Longest wait for room, in seconds", kind: "number" },
      { path: "RetryPolicy.Attempts", name: "Attempts of each execution", kind: "number" },
    ],
  },
];

/** @param {string} path */
function parts(path) {
  return [...path.matchAll(/[^.[\]]+/g)].map((found) => found[0]);
}

/** @param {Json} job @param {string} path @returns {Json} */
export function read(job, path) {
  return parts(path).reduce((value, key) => value?.[key], job);
}

/** Sets or, for `undefined`, removes a value; containers that become empty go with it. @param {Json} job @param {string} path @param {Json} value */
export function write(job, path, value) {
  const keys = parts(path);
  let holder = job;
  for (let at = 0; at < keys.length - 1; at += 1) {
    if (holder[keys[at]] === undefined || holder[keys[at]] === null) {
      if (value === undefined) return;
      holder[keys[at]] = /^\d+$/.test(keys[at + 1]) ? [] : {};
    }
    holder = holder[keys[at]];
  }
  if (value === undefined) delete holder[keys[keys.length - 1]];
  else holder[keys[keys.length - 1]] = value;
  if (value !== undefined || Array.isArray(holder)) return;
  const above = path.slice(0, path.lastIndexOf("."));
  if (above && above !== path && !/\]$|Engine$/.test(above) && Object.keys(holder).length === 0) {
    write(job, above, undefined);
  }
}

/** What a line without `=` is in the job: no text, so that it is refused instead of emptied. */
export const NO_VALUE = false;

/** @param {Json} value @param {Field["kind"]} kind @returns {string} */
export function toText(value, kind) {
  if (value === undefined || value === null) return "";
  if (kind === "lines") return Array.isArray(value) ? value.join("\n") : String(value);
  if (kind === "pairs") {
    return Object.entries(value).map(([key, text]) => text === NO_VALUE ? key : `${key}=${text}`).join("\n");
  }
  if (kind === "paths") {
    return value.map((/** @type {Json} */ path) => `${path.Name}:${path.Path}`).join("\n");
  }
  if (kind === "constraints") return value.map(constraintText).join("\n");
  return String(value);
}

/** @param {Json} constraint */
function constraintText(constraint) {
  const values = (constraint.Values ?? []).map(quotedValue).join(",");
  return `${constraint.Key} ${constraint.Operator === "!" ? "absent" : constraint.Operator}${
    values ? ` ${values}` : ""
  }`;
}

/** A value that the commas between values would split stands in quotes. @param {string} value */
function quotedValue(value) {
  return /[,"]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

/** The values of a condition, separated by commas outside of quotes. @param {string} text */
function valuesOf(text) {
  const values = [...text.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]*))\s*(?:,|$)/g)]
    .map(([, quoted, plain]) => quoted === undefined ? plain.trim() : quoted.replaceAll('""', '"'));
  return values.filter(Boolean);
}

/** @param {string} text @param {Field["kind"]} kind @returns {Json} undefined for an empty field */
export function fromText(text, kind) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  if (kind === "lines") return text === "" ? undefined : text.replace(/\n$/, "").split("\n");
  if (!lines.length) return undefined;
  if (kind === "number") return /^-?\d+$/.test(text.trim()) ? Number(text) : text;
  if (kind === "pairs") {
    return Object.fromEntries(lines.map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line, NO_VALUE] : [line.slice(0, at).trim(), line.slice(at + 1)];
    }));
  }
  if (kind === "paths") {
    return lines.map((line) => {
      const at = line.indexOf(":");
      return at < 0
        ? { Name: line.replace(/^.*\//, ""), Path: line }
        : { Name: line.slice(0, at), Path: line.slice(at + 1) };
    });
  }
  if (kind === "constraints") return lines.map(constraint);
  return text.trim();
}

/** Words for operators that the API writes otherwise. @type {Record<string, string>} */
const OPERATORS = { "": "exists", absent: "!", ">": "gt", "<": "lt" };

/**
 * Whatever follows the key is an operator, or else `a ~~ b` would become another
 * condition: the service knows which operators there are.
 * @param {string} line
 */
function constraint(line) {
  const negated = /^!\s*([^\s=!<>~]+)$/.exec(line);
  if (negated) return { Key: negated[1], Operator: "!", Values: [] };
  const [, key, after] = /^([^\s=!<>~]+)\s*(.*)$/.exec(line) ?? ["", line, ""];
  const [, operator, rest] = /^([=!<>~]+|\w+|[^\s(]+|)\s*(.*)$/.exec(after) ?? ["", after, ""];
  const values = valuesOf(rest.replace(/^\(|\)$/g, ""));
  return { Key: key, Operator: OPERATORS[operator] ?? operator, Values: values };
}
