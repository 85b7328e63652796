// What lists and tabs show and do, as arguments of jobctl.

import { assertEquals } from "./assert.js";
import { curl, option } from "../assets/commands.js";
import { Filters } from "../assets/jobs/filters.js";
import {
  eventArguments,
  executionArguments,
  historyArguments,
  listArguments,
  logArguments,
  nodeListArguments,
  rerunArguments,
  stopArguments,
} from "../assets/lines.js";

Deno.test("the filters of a list are arguments of jobctl", () => {
  assertEquals(listArguments(new Filters({}), 50), ["list", "--all-namespaces", "--limit", "50"]);
  const filters = new Filters({
    prefix: "-x",
    namespace: "ci",
    states: ["Pending", "Queued"],
    type: "ops",
    labels: "team in (a, b)",
    since: "24h",
    before: "2026-01-02T03:04:05Z",
    order: "oldest",
  });
  assertEquals(listArguments(filters, 50), [
    ...["list", "--namespace", "ci", "--name-prefix=-x", "--state", "Pending,Queued", "--type", "ops"],
    ...["--selector", "team in (a, b)", "--since", "24h", "--before", "2026-01-02T03:04:05Z", "--reverse"],
    ...["--limit", "50"],
  ]);
  assertEquals(listArguments(new Filters({ order: "changed" }), 5).includes("--changed"), true);
});

Deno.test("what is chosen on a tab is an argument of jobctl, and what is not is left out", () => {
  assertEquals(option("--reason", ""), []);
  assertEquals(stopArguments(["j-1", "j-2"], "too slow"), ["stop", "j-1", "j-2", "--reason", "too slow"]);
  assertEquals(rerunArguments("j-1", "Failed"), ["rerun", "j-1", "--failed", "--detach"]);
  assertEquals(rerunArguments("j-1", "All"), ["rerun", "j-1", "--detach"]);
  assertEquals(rerunArguments("j-1", "All", true), ["rerun", "j-1", "--downstream"]);
  assertEquals(executionArguments("j-1", "created", "2-5"), ["executions", "j-1", "--index", "2-5"]);
  assertEquals(executionArguments("j-1", "state", ""), ["executions", "j-1", "--sort", "state", "--reverse"]);
  assertEquals(logArguments("j-1", { execution: "", stream: "stderr" }), [
    ...["logs", "j-1", "--follow", "--stream", "stderr"],
  ]);
  assertEquals(historyArguments("j-1", { kind: "job", execution: "e-1" }), [
    ...["history", "j-1", "--type", "job", "--execution", "e-1"],
  ]);
  const events = ["events", "--follow", "--since", "10m"];
  assertEquals(eventArguments({ kind: "", namespace: "*", since: "10m" }), [...events, "--all-namespaces"]);
  assertEquals(eventArguments({ kind: "node", namespace: "ci", since: "10m" }), [
    ...events,
    "--type",
    "node",
  ]);
  assertEquals(nodeListArguments({ labels: "gpu", order: "available_cpu" }), [
    ...["node", "list", "--selector", "gpu", "--sort", "available-cpu", "--reverse"],
  ]);
});

Deno.test("a line of curl has its flags before the address, and the address in quotes where it needs them", () => {
  const url = "/api/v1/orchestrator/jobs/j-1/logs?follow=true&stream=stderr";
  assertEquals(
    curl("GET", url, { flags: ["-N"], origin: "http://h:1" }),
    `curl -sS --fail-with-body -N 'http://h:1${url}'`,
  );
});
