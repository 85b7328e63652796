// The specification of a job: to read, to copy, and to submit again after changes.

import { copyButton, copyLines } from "../elements/copy.js";
import { h } from "../dom.js";
import { asCurl, asJobctl, resubmittable } from "../submit/copy.js";

/** @import { TabContext } from "../pages/job.js" */

/** @param {TabContext} context */
export default function specification({ job }) {
  const spec = resubmittable(job);
  const text = JSON.stringify(spec, null, 2);
  return h(
    "div",
    null,
    h(
      "div",
      { class: "toolbar" },
      h("a", { class: "button", href: `/submit?from=${job.ID}` }, "Edit and submit as new"),
      copyLines("submitting it again", () => asCurl(spec), () => asJobctl(spec)),
      h("span", { class: "end muted small" }, `version ${job.Version}, revision ${job.Revision}`),
      copyButton(() => text, "Copy the specification"),
    ),
    h(
      "pre",
      { class: "code numbered", tabindex: 0, "aria-label": "Specification" },
      text.split("\n").map((line) => h("span", null, line || " ")),
    ),
  );
}
