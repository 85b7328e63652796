// The specification of a job: to read, to copy, and to submit again after changes.

import { copyButton, copyText } from "../elements/copy.js";
import { h } from "../dom.js";
import { notify } from "../notice.js";
import { asCurl, asJobctl, resubmittable } from "../submit/copy.js";

/** @import { TabContext } from "../pages/job.js" */

/** @param {TabContext} context */
export default function specification({ job }) {
  const spec = resubmittable(job);
  const text = JSON.stringify(spec, null, 2);
  const copyAs = (/** @type {string} */ word, /** @type {() => string} */ build) =>
    h("button", {
      type: "button",
      onclick: async () => {
        if (await copyText(build())) notify(`Copied as ${word}`);
        else {notify(
            "The browser does not let this page copy. Select the text and copy it yourself.",
            "failed",
          );}
      },
    }, `Copy as ${word}`);
  return h(
    "div",
    null,
    h(
      "div",
      { class: "toolbar" },
      copyAs("curl", () => asCurl(spec)),
      copyAs("jobctl", () => asJobctl(spec)),
      h("a", { class: "button", href: `/submit?from=${job.ID}` }, "Edit and submit as new"),
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
