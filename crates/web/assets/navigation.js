// The bar at the left: search, pages, who is signed in, the state of the connection, the colour scheme and the keys.

import { account } from "./account.js";
import { connection } from "./connection.js";
import { fill, h, svg } from "./dom.js";
import { icon } from "./icons.js";
import { showKeys } from "./keys.js";
import { live } from "./live.js";
import { prefer, preferences } from "./preferences.js";
import { searchBox } from "./search.js";
import { session } from "./session.js";

/** @type {[string | (() => string), string, string, string][]} path, or "" if the role has none; word, icon, keys of its routes */
const PAGES = [
  ["/", "Overview", "overview", "overview"],
  ["/jobs", "Jobs", "jobs", "jobs job execution graphs graph schedules"],
  [() => session.may("submit") ? "/submit" : "", "Submit", "submit", "submit"],
  ["/nodes", "Nodes", "nodes", "nodes node"],
  ["/events", "Events", "events", "events"],
  [() => session.access, "Access", "access", "access secrets groups join-tokens audit"],
];

/** @returns {{ parts: Node[], search: () => void }} */
export function navigation() {
  const search = searchBox();
  const links = PAGES.map(([, word, name, keys]) => h("a", { data: { key: keys } }, icon(name), word));
  const items = links.map((link) => h("li", null, link));
  const pages = h("nav", { "aria-label": "Pages" }, h("ul", { class: "menu" }, items));
  const state = liveState();
  const update = () => {
    const asks = session.asks !== "";
    for (const part of [search.element, pages, state]) part.hidden = asks;
    PAGES.forEach(([path], at) => {
      links[at].href = typeof path === "string" ? path : path();
      items[at].hidden = !links[at].getAttribute("href");
    });
  };
  session.addEventListener("change", update);
  update();
  return {
    parts: [
      h(
        "a",
        { class: "brand", href: "/", "aria-label": "Job orchestrator" },
        logo(),
        h("span", null, "Job orchestrator"),
      ),
      search.element,
      pages,
      account(),
      h(
        "div",
        { class: "side-end" },
        state,
        schemeSwitch(),
        h("a", {
          class: "button quiet icon",
          href: "/reference",
          title: "API reference",
          "aria-label": "API reference",
        }, icon("reference")),
        h("button", {
          class: "quiet icon",
          type: "button",
          title: "Keys (?)",
          "aria-label": "Keys",
          onclick: showKeys,
        }, icon("keyboard")),
      ),
    ],
    search: search.focus,
  };
}

function logo() {
  return svg(
    "svg",
    { width: 20, height: 20, viewBox: "0 0 16 16", "aria-hidden": "true" },
    svg("rect", { width: 16, height: 16, rx: 4, fill: "currentColor" }),
    svg("path", {
      d: "M4 4.5h5M4 8h8M7 11.5h5",
      class: "logo-lines",
      "stroke-width": 1.8,
      "stroke-linecap": "round",
    }),
  );
}

function liveState() {
  const box = h("p", { class: "live-state", role: "status" });
  const update = () => {
    const [tone, name, word] = connection.isLost
      ? ["attention", "warning", "Not connected"]
      : live.state === "open"
      ? ["completed", "check", "Live"]
      : live.state === "unsupported"
      ? ["waiting", "clock", "Every 5 s"]
      : ["waiting", "dotted", "Connecting"];
    box.title = word;
    fill(box, h("i", { class: `tone-${tone}` }, icon(name, 14)), h("span", null, word));
  };
  connection.addEventListener("change", update);
  live.addEventListener("state", update);
  update();
  return box;
}

function schemeSwitch() {
  const order = /** @type {const} */ (["system", "light", "dark"]);
  const words = { system: "Colours of the system", light: "Light colours", dark: "Dark colours" };
  const button = h("button", { class: "quiet icon", type: "button" });
  const update = () => {
    fill(button, icon(preferences.scheme));
    button.title = words[preferences.scheme];
    button.setAttribute("aria-label", `${words[preferences.scheme]}; change`);
  };
  button.addEventListener("click", () => {
    prefer({ scheme: order[(order.indexOf(preferences.scheme) + 1) % order.length] });
    update();
  });
  update();
  return button;
}
