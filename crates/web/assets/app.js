// The start of the page: its frame, its routes and what all pages share.

import "./elements/clock.js";
import { startBanner } from "./banner.js";
import { frame } from "./dom.js";
import { startKeys } from "./keys.js";
import { live } from "./live.js";
import { navigation } from "./navigation.js";
import { applyScheme } from "./preferences.js";
import { route, startRouter } from "./router.js";
import { session } from "./session.js";

applyScheme();
const { parts, search } = navigation();
frame("side").replaceChildren(...parts);
startBanner(frame("banner"));
startKeys(search);

route("/", "overview", () => import("./pages/overview.js"));
route("/jobs", "jobs", () => import("./pages/jobs.js"));
route("/jobs/:id", "job", () => import("./pages/job.js"));
route("/jobs/:id/:tab", "job", () => import("./pages/job.js"));
route("/graphs", "graphs", () => import("./pages/graphs.js"));
route("/graphs/:id", "graph", () => import("./pages/graph.js"));
route("/executions/:id", "execution", () => import("./pages/execution.js"));
route("/submit", "submit", () => import("./pages/submit.js"));
route("/nodes", "nodes", () => import("./pages/nodes.js"));
route("/nodes/:id", "node", () => import("./pages/node.js"));
route("/events", "events", () => import("./pages/events.js"));
route("/schedules", "schedules", () => import("./pages/schedules.js"));
route("/schedules/:namespace/:name", "schedules", () => import("./pages/schedules.js"));
route("/access", "access", () => import("./pages/access.js"));
route("/access/secrets", "secrets", () => import("./pages/secrets.js"));
route("/access/groups", "groups", () => import("./pages/groups.js"));
route("/access/join-tokens", "join-tokens", () => import("./pages/join-tokens.js"));
route("/access/audit", "audit", () => import("./pages/audit.js"));
route("/reference", "reference", () => import("./pages/reference.js"));
route("/reference/:operation", "reference", () => import("./pages/reference.js"));

session.start();
live.start();
startRouter();
