// Line icons on a grid of 16, drawn as paths.

import { svg } from "./dom.js";

/** @type {Record<string, string>} */
const PATHS = {
  dotted: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6",
  clock: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M8 5v3.2l2.2 1.4",
  play: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M6.7 5.6v4.8l3.9-2.4z",
  check: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M5.4 8.2l1.8 1.8 3.4-3.8",
  cross: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M6 6l4 4M10 6l-4 4",
  stop: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M6.2 6.2h3.6v3.6H6.2z",
  minus: "M8 2.2a5.8 5.8 0 1 1 0 11.6 5.8 5.8 0 0 1 0-11.6M5.5 8h5",
  warning: "M8 2.4l6 10.8H2zM8 6.4v3M8 11.3v.1",
  overview: "M2.5 13.5V7.5M6.2 13.5V2.5M9.8 13.5V9M13.5 13.5V5",
  jobs: "M2.5 4h11M2.5 8h11M2.5 12h7",
  submit: "M8 3v10M3 8h10",
  nodes: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5v.1M5 11v.1",
  events: "M1.8 8h2.7l2-4.8 3 9.6 2-4.8h2.7",
  access: "M10 2.5a3.5 3.5 0 1 1-1.2 6.8L7 11H5.5v1.5H4v1.5H2v-2.3l4.7-4.5A3.5 3.5 0 0 1 10 2.5M10.8 5.2v.1",
  copy:
    "M5.5 5.5V3.2A.7.7 0 0 1 6.2 2.5h6.6a.7.7 0 0 1 .7.7v6.6a.7.7 0 0 1-.7.7h-2.3M3.2 5.5h6.6a.7.7 0 0 1 .7.7v6.6a.7.7 0 0 1-.7.7H3.2a.7.7 0 0 1-.7-.7V6.2a.7.7 0 0 1 .7-.7",
  done: "M3 8.5l3.4 3.4L13 5",
  close: "M4 4l8 8M12 4l-8 8",
  chevron: "M6 4l4 4-4 4",
  light:
    "M8 5.2a2.8 2.8 0 1 1 0 5.6 2.8 2.8 0 0 1 0-5.6M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9",
  dark: "M13.5 9.6A5.8 5.8 0 0 1 6.4 2.5a5.8 5.8 0 1 0 7.1 7.1",
  system: "M2 3h12v8H2zM6 13.5h4",
  keyboard: "M1.8 4h12.4v8H1.8zM4.5 6.6v.1M8 6.6v.1M11.5 6.6v.1M5 9.5h6",
  download: "M8 2.5v7.5M4.8 7L8 10.2 11.2 7M2.5 13.5h11",
  refresh: "M13 8a5 5 0 1 1-1.5-3.6M13 2.2v2.6h-2.6",
  reference: "M3 2.5h7.5a2 2 0 0 1 2 2v9H5a2 2 0 0 1-2-2zM3 11.5a2 2 0 0 1 2-2h7.5M6 5.5h3.5",
  link: "M6.5 3.5h-3v9h9v-3M9 2.5h4.5V7M13.5 2.5L7.5 8.5",
};

/** @param {string} name @param {number} [size] */
export function icon(name, size = 16) {
  const path = svg("path", { d: PATHS[name] ?? PATHS.dotted });
  if (name === "dotted") path.setAttribute("stroke-dasharray", "2 2");
  return svg("svg", {
    class: "icon",
    width: size,
    height: size,
    viewBox: "0 0 16 16",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": 1.5,
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  }, path);
}
