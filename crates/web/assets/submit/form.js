// The form of a job; it edits the same job as the text, and shows each problem next to its field.

import { h, say } from "../dom.js";
import { bytes } from "../format.js";
import { notify } from "../notice.js";
import { fromText, GROUPS, read, toText, write } from "./fields.js";

/** @import { Json } from "../../types.d.ts" */
/** @import { Field } from "./fields.js" */

// What may travel within a job: the body has at most 10 MB, of which base64 takes a third.
const LARGEST_MODULE = 7_000_000;

export class Form {
  /** @type {{ field: Field, box: HTMLElement, problem: HTMLElement, input: HTMLElement, show: () => void }[]} */
  fields = [];
  /** @type {Json} */ job = {};

  /** @param {(job: Json) => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.element = h(
      "div",
      { class: "form" },
      GROUPS.map((group, nth) => {
        const fields = group.fields.map((field) => this.#field(field));
        if (group.open) {
          return h("fieldset", null, h("legend", null, group.title), h("div", { class: "fields" }, fields));
        }
        return h(
          "details",
          { data: { group: nth } },
          h("summary", null, group.title),
          h("div", { class: "fields" }, fields),
        );
      }),
    );
  }

  /** @param {Json} job */
  set(job) {
    this.job = structuredClone(job);
    this.#refresh();
  }

  #refresh() {
    const engine = String(read(this.job, "Tasks[0].Engine.Type") ?? "").toLowerCase();
    for (const { field, box, input, show } of this.fields) {
      box.hidden = Boolean(field.engine && field.engine !== engine) ||
        (field.path.endsWith("Domains") && read(this.job, "Tasks[0].Network.Type") !== "HTTP");
      if (document.activeElement !== input) show();
    }
  }

  /** @param {Field} field @param {Json} value */
  #write(field, value) {
    if (field.path === "Tasks[0].Engine.Type") {
      write(this.job, "Tasks[0].Engine", { Type: value, Params: {} });
      if (!read(this.job, "Tasks[0].Name")) write(this.job, "Tasks[0].Name", "main");
    } else write(this.job, field.path, value);
    this.#refresh();
    this.changed(structuredClone(this.job));
  }

  /** @param {Field} field */
  #field(field) {
    const problem = h("p", {
      class: "problem-text small tone-failed",
      id: `problem-${field.path}`,
      hidden: true,
    });
    const { input, show, extra } = this.#input(field);
    input.setAttribute("aria-describedby", problem.id);
    const wide = ["lines", "pairs", "constraints", "paths", "module"].includes(field.kind);
    const box = h(
      "label",
      { class: `field ${wide ? "full" : field.path.includes(".Resources.") ? "short" : ""}` },
      h("span", null, field.name),
      input,
      extra ?? null,
      field.hint ? h("small", { class: "muted" }, field.hint) : null,
      problem,
    );
    this.fields.push({ field, box, problem, input, show });
    return box;
  }

  /** @param {Field} field @returns {{ input: HTMLElement, show: () => void, extra?: HTMLElement }} */
  #input(field) {
    if (field.kind === "choice") return this.#choice(field);
    if (field.kind === "module") return this.#module(field);
    const isLong = ["lines", "pairs", "constraints", "paths"].includes(field.kind);
    const attributes = { placeholder: field.placeholder, autocomplete: "off", spellcheck: "false" };
    const input = isLong ? h("textarea", { rows: 2, class: "mono", ...attributes }) : h("input", {
      type: "text",
      list: field.list,
      inputmode: field.kind === "number" ? "numeric" : "text",
      ...attributes,
    });
    input.addEventListener("input", () => {
      if (input instanceof HTMLTextAreaElement) {
        input.rows = Math.min(10, Math.max(2, input.value.split("\n").length));
      }
      this.#write(field, fromText(input.value, field.kind));
    });
    const show = () => {
      input.value = toText(read(this.job, field.path), field.kind);
      if (input instanceof HTMLTextAreaElement) {
        input.rows = Math.min(10, Math.max(2, input.value.split("\n").length));
      }
    };
    return { input, show };
  }

  /** @param {Field} field */
  #choice(field) {
    const select = h(
      "select",
      null,
      (field.options ?? []).map(([value, word]) => h("option", { value }, word)),
    );
    select.addEventListener("change", () => this.#write(field, select.value || undefined));
    const show = () => {
      const value = String(read(this.job, field.path) ?? "");
      const known = [...select.options].find((option) =>
        option.value.toLowerCase() === value.toLowerCase() || (value === "None" && option.value === "")
      );
      if (!known) select.append(h("option", { value }, value));
      select.value = known?.value ?? value;
    };
    return { input: select, show };
  }

  /** A module is a file that travels with the job, or an address. @param {Field} field */
  #module(field) {
    const input = h("input", {
      type: "text",
      placeholder: "https://example.com/program.wasm",
      autocomplete: "off",
      spellcheck: "false",
    });
    const told = h("span", { class: "small muted" });
    const file = h("input", {
      type: "file",
      accept: ".wasm,application/wasm",
      "aria-label": "Choose a file",
    });
    const source = () => read(this.job, `${field.path}.Source`);
    const show = () => {
      const url = String(source()?.Params?.URL ?? "");
      const inline = url.startsWith("data:");
      input.value = inline ? "" : url;
      input.placeholder = inline ? "part of the job" : "https://example.com/program.wasm";
      say(
        told,
        inline
          ? `A module of ${bytes(Math.floor((url.length - url.indexOf(",") - 1) * 0.75))} is part of the job.`
          : "",
      );
    };
    const use = (/** @type {string} */ type, /** @type {string} */ url, /** @type {string} */ alias) => {
      this.#write(
        field,
        url
          ? { Source: { Type: type, Params: { URL: url } }, ...(alias ? { Alias: alias } : {}) }
          : undefined,
      );
      show();
    };
    input.addEventListener("change", () => use("urldownload", input.value.trim(), ""));
    file.addEventListener("change", () => {
      const chosen = file.files?.[0];
      if (!chosen) return;
      if (chosen.size > LARGEST_MODULE) {
        return notify(
          `${chosen.name} has ${bytes(chosen.size)}; at most ${
            bytes(LARGEST_MODULE)
          } fit into a job. Put it where nodes can fetch it.`,
          "failed",
        );
      }
      const reader = new FileReader();
      reader.addEventListener("load", () => {
        const data = String(reader.result);
        use(
          "inline",
          `data:application/wasm;base64,${data.slice(data.indexOf(",") + 1)}`,
          chosen.name.replace(/\.wasm$/, ""),
        );
      });
      reader.readAsDataURL(chosen);
    });
    return { input, show, extra: h("span", { class: "module-file" }, file, told) };
  }

  /** The visible field that holds what the path names. @param {string} problemPath */
  #owner(problemPath) {
    const path = problemPath.replace(/^Job\./, "");
    return this.fields.filter(({ field, box }) =>
      !box.hidden &&
      (path === field.path || path.startsWith(`${field.path}.`) || path.startsWith(`${field.path}[`) ||
        path === field.path.replace(".Resources.", ".ResourcesConfig."))
    )
      .sort((a, b) => b.field.path.length - a.field.path.length)[0];
  }

  /**
   * A problem with the name of its field, and a way to get there.
   * @param {{ Path?: string, Reason: string }} problem
   * @returns {{ Path?: string, Reason: string, where?: string, goTo?: () => void }}
   */
  named(problem) {
    const owner = problem.Path ? this.#owner(problem.Path) : undefined;
    if (!owner) return problem;
    const path = (problem.Path ?? "").replace(/^Job\./, "");
    return {
      Reason: reason(owner.field, path, problem.Reason),
      where: owner.field.name,
      goTo: () => {
        const details = owner.box.closest("details");
        if (details) details.open = true;
        owner.input.focus();
        owner.box.scrollIntoView({ block: "center" });
      },
    };
  }

  /** Shows problems next to their fields. @param {{ Path: string, Reason: string }[]} problems */
  mark(problems) {
    const marks = new Map();
    const count = this.fields.find(({ field }) => field.path === "Count");
    if (count && read(this.job, "Count") === 0) {
      marks.set(count, ["0 is taken as 1; leave it empty for one execution"]);
    }
    for (const problem of problems) {
      const owner = this.#owner(problem.Path);
      if (!owner) continue;
      const path = problem.Path.replace(/^Job\./, "");
      marks.set(owner, [...(marks.get(owner) ?? []), reason(owner.field, path, problem.Reason)]);
    }
    for (const owner of this.fields) {
      const reasons = marks.get(owner);
      owner.problem.hidden = !reasons;
      say(owner.problem, reasons?.join("; ") ?? "");
      if (reasons) {
        owner.input.setAttribute("aria-invalid", "true");
        const details = owner.box.closest("details");
        if (details) details.open = true;
      } else owner.input.removeAttribute("aria-invalid");
    }
  }
}

/** A line of pairs without `=` reads as a value of another type. @param {Field} field @param {string} path @param {string} reason */
function reason(field, path, reason) {
  if (field.kind !== "pairs" || !reason.startsWith("expected a string")) return reason;
  const key = path.slice(field.path.length + 1);
  return `'${key}' has no '='; write ${key}=value, or ${key}= for an empty value`;
}
