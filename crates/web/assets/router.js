// Maps paths to pages, loads a page's module when it is first needed, and moves focus and title with the route.

import { fill, frame, h } from "./dom.js";
import { visible } from "./format.js";
import { failure, loading } from "./notes.js";
import { session } from "./session.js";

/** @import { Shown, Visit } from "../types.d.ts" */

/** @typedef {{ default: (visit: Visit) => Shown }} PageModule */
/** @typedef {{ pattern: RegExp, names: string[], key: string, load: () => Promise<PageModule> }} Route */
/** @import { Kept } from "../types.d.ts" */

/** Stands in for every page while the service asks for a token; the URL stays. @type {Route} */
const SIGN_IN = { pattern: /$^/, names: [], key: "sign-in", load: () => import("./pages/sign-in.js") };

/** @type {Route[]} */
const routes = [];
/** @type {{ route: Route, shown: Shown, leave: AbortController } | null} */
let current = null;
let visits = 0;
let isFirst = true;
let visited = "";
/** What each entry of the browser's history keeps while this document lives. @type {Map<number, Kept>} */
const kept = new Map();
let entry = 0;
let entries = 0;
// How long a page that one comes back to may take to be as long as it was.
const RESTORE_MS = 4000;

/** @param {string} path such as `/jobs/:id` @param {string} key names the page @param {() => Promise<PageModule>} load */
export function route(path, key, load) {
  const names = [...path.matchAll(/:(\w+)/g)].map((found) => found[1]);
  const pattern = new RegExp(`^${path.replace(/:\w+/g, "([^/]+)")}/?$`);
  routes.push({ pattern, names, key, load });
}

/** @param {string} url a path of this page @param {{ replace?: boolean }} [options] */
export function go(url, options = {}) {
  if (options.replace) history.replaceState(history.state, "", url);
  else {
    keepScroll();
    entry = ++entries;
    history.pushState({ entry }, "", url);
  }
  void open();
}

function keepScroll() {
  const at = kept.get(entry);
  if (at) at.scroll = scrollY;
}

/** Scrolls to where the reader was, as soon as the page is long enough again. @param {number} to @param {AbortSignal} signal */
function restoreScroll(to, signal) {
  const until = Date.now() + RESTORE_MS;
  const stop = new AbortController();
  for (const kind of ["wheel", "pointerdown", "keydown", "touchmove"]) {
    addEventListener(kind, () => stop.abort(), { signal: AbortSignal.any([stop.signal, signal]) });
  }
  const attempt = () => {
    if (stop.signal.aborted || signal.aborted) return;
    scrollTo(0, to);
    if (Math.abs(scrollY - to) > 1 && Date.now() < until) requestAnimationFrame(attempt);
    else stop.abort();
  };
  attempt();
}

/** Rewrites the query without a new visit, for filters. @param {URLSearchParams} query */
export function rewriteQuery(query) {
  const text = query.toString();
  visited = location.pathname + (text ? `?${text}` : "");
  history.replaceState(history.state, "", visited);
}

/** Starts to follow links, the browser's history, and who is signed in. */
export function startRouter() {
  session.addEventListener("change", () => {
    leave();
    for (const dialog of document.querySelectorAll("dialog")) dialog.close("");
    void open();
  });
  // A jump within the page is no visit.
  addEventListener("popstate", ({ state }) => {
    if (location.pathname + location.search === visited) return;
    keepScroll();
    entry = state?.entry ?? 0;
    void open(true);
  });
  history.scrollRestoration = "manual";
  entry = entries = Number(history.state?.entry ?? 0);
  document.addEventListener("click", openRow);
  document.addEventListener("click", (event) => {
    if (
      event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey ||
      event.altKey
    ) return;
    const link = event.target instanceof Element ? event.target.closest("a[href]") : null;
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (link.origin !== location.origin || !match(link.pathname) || link.hash) return;
    event.preventDefault();
    go(link.pathname + link.search);
  });
  void open();
}

/** @param {string} path */
function match(path) {
  for (const candidate of routes) {
    const found = candidate.pattern.exec(path);
    if (!found) continue;
    /** @type {Record<string, string>} */
    const params = {};
    candidate.names.forEach((name, index) => params[name] = decode(found[index + 1]));
    return { route: candidate, params };
  }
  return null;
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function leave() {
  current?.leave.abort();
  current = null;
}

/** A click anywhere on a row opens what the row is about. @param {MouseEvent} event */
function openRow(event) {
  if (event.defaultPrevented || event.button || !(event.target instanceof Element)) return;
  if (event.target.closest("a, button, input, select, textarea, label, summary, pre")) return;
  const link = event.target.closest("tbody tr:not(.flat)")?.querySelector("a.main");
  // Who selects text does not mean to leave.
  if (!(link instanceof HTMLAnchorElement) || !getSelection()?.isCollapsed) return;
  if (event.metaKey || event.ctrlKey) window.open(link.href, "_blank", "noopener");
  else link.click();
}

/** @param {boolean} [isBack] whether the reader comes back to it */
async function open(isBack = false) {
  const visit = ++visits;
  visited = location.pathname + location.search;
  const found = session.asks ? { route: SIGN_IN, params: {} } : match(location.pathname);
  const query = new URLSearchParams(location.search);
  const left = new AbortController();
  const before = isBack ? kept.get(entry) : undefined;
  const keeps = { scroll: 0, rows: 0, ...before };
  kept.set(entry, keeps);
  const asked = {
    path: location.pathname,
    params: found?.params ?? {},
    query,
    signal: left.signal,
    kept: keeps,
  };
  mark(found?.route.key ?? "");

  if (current && found && current.route.key === found.route.key && current.shown.update?.(asked)) {
    document.title = titleOf(current.shown.title);
    return;
  }
  leave();
  const main = frame("main");
  if (!found) return present({ title: "Not found", element: nothingHere() }, main, 0, left.signal);
  fill(main, loading());
  try {
    const [page] = await Promise.all([found.route.load(), session.known]);
    if (visit !== visits) return;
    const shown = page.default(asked);
    current = { route: found.route, shown, leave: left };
    present(shown, main, keeps.scroll, left.signal);
  } catch (error) {
    if (visit !== visits) return;
    console.error(error);
    present({ title: "Error", element: failure(error, () => void open()) }, main, 0, left.signal);
  }
}

/** @param {Shown} shown @param {HTMLElement} main @param {number} scroll @param {AbortSignal} signal */
function present(shown, main, scroll, signal) {
  document.title = titleOf(shown.title);
  fill(main, shown.element);
  if (scroll) restoreScroll(scroll, signal);
  else scrollTo(0, 0);
  const field = shown.element.querySelector("[autofocus]");
  if (field instanceof HTMLElement) field.focus();
  const moves = !isFirst && !field;
  isFirst = false;
  if (!moves) return;
  // A page whose heading comes with its data has the focus as a whole.
  const heading = shown.element.querySelector("h1");
  if (heading) heading.tabIndex = -1;
  (heading ?? main).focus({ preventScroll: true });
}

/** Names the page in the tab, once more if a title becomes known later. @param {string} title */
export function retitle(title) {
  if (current) current.shown.title = title;
  document.title = titleOf(title);
}

/** @param {string} title */
function titleOf(title) {
  return `${visible(title)} · Job orchestrator`;
}

/** @param {string} key */
function mark(key) {
  for (const link of document.querySelectorAll(".menu a")) {
    if (link instanceof HTMLElement && link.dataset.key?.split(" ").includes(key)) {
      link.setAttribute("aria-current", "page");
    } else link.removeAttribute("aria-current");
  }
}

function nothingHere() {
  return h(
    "section",
    null,
    h("header", { class: "title" }, h("h1", null, "There is no such page")),
    h(
      "div",
      { class: "empty" },
      h("p", null, `Nothing is at ${location.pathname}.`),
      h(
        "p",
        null,
        h("a", { href: "/" }, "Overview"),
        " · ",
        h("a", { href: "/jobs" }, "Jobs"),
        " · ",
        h("a", { href: "/nodes" }, "Nodes"),
      ),
    ),
  );
}
