// A job as others take it: as a submission, as a line of curl, as a line of jobctl.

import { path } from "../api.js";
import { curl, jobctl } from "../commands.js";

/** @import { Json } from "../../types.d.ts" */

// What the service sets by itself; it would answer a submission of these with warnings.
const OWN = [
  "State",
  "Version",
  "Revision",
  "CreateTime",
  "ModifyTime",
  "Executions",
  "StartTime",
  "EndTime",
];

/** The specification of a job record, without what the service sets. @param {Json} job */
export function resubmittable(job) {
  const { ID, ...rest } = job;
  const spec = Object.fromEntries(Object.entries(rest).filter(([name]) => !OWN.includes(name)));
  if (rest.Name === ID) delete spec.Name;
  const meta = Object.fromEntries(
    Object.entries(rest.Meta ?? {}).filter(([key]) => !key.startsWith("service.org/")),
  );
  if (Object.keys(meta).length) spec.Meta = meta;
  else delete spec.Meta;
  spec.Tasks = (rest.Tasks ?? []).map(bare);
  return dropEmpty(spec);
}

/** @param {Json} task */
function bare(task) {
  const { Resources, Timeouts, ...rest } = task;
  const given = (/** @type {Json} */ map) =>
    Object.fromEntries(Object.entries(map ?? {}).filter(([, value]) => value !== "" && value !== 0));
  return dropEmpty({
    ...rest,
    Publisher: rest.Publisher?.Type ? dropEmpty(rest.Publisher) : null,
    Resources: given(Resources),
    Timeouts: given(Timeouts),
    InputSources: (rest.InputSources ?? []).map(dropEmpty),
  });
}

/** Leaves out what is empty; 0 and false say something. @param {Json} map */
function dropEmpty(map) {
  return Object.fromEntries(
    Object.entries(map).filter(([, value]) =>
      value !== "" && value !== null && value !== undefined && !(Array.isArray(value) && !value.length) &&
      !(typeof value === "object" && !Array.isArray(value) && !Object.keys(value).length)
    ),
  );
}

/** @param {Json} spec @param {string} [origin] */
export function asCurl(spec, origin) {
  return curl("PUT", path(["jobs"]), { body: { Job: spec }, origin });
}

/** @param {Json} spec @param {string} [origin] */
export function asJobctl(spec, origin) {
  return `${jobctl(["submit", "-"], origin)} <<'END'\n${JSON.stringify({ Job: spec }, null, 2)}\nEND`;
}
