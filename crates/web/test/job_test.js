// Phases of a timeline, filters in the URL, and states.

import { assertEquals } from "./assert.js";
import { slots, ticks } from "../assets/job/phases.js";
import { readFilters, toQuery } from "../assets/jobs/filters.js";
import { isEndedExecution, nodeLook } from "../assets/state.js";

const AT = 1_795_250_966_000;

/** @param {string} id @param {string} name @param {number} state @param {number} from @param {number} to */
function execution(id, name, state, from, to) {
  return /** @type {any} */ ({
    ID: id,
    Name: name,
    NodeID: "n-1",
    ComputeState: { StateType: state, Message: "" },
    CreateTime: (AT + from) * 1e6,
    ModifyTime: (AT + to) * 1e6,
  });
}

/** @param {string} id @param {number} previous @param {number} next @param {number} at */
function event(id, previous, next, at) {
  return /** @type {any} */ ({
    ExecutionID: id,
    ExecutionState: { Previous: previous, New: next },
    Comment: "told to run",
    Time: new Date(AT + at).toISOString(),
  });
}

Deno.test("a slot has its attempts in order, each with its phases", () => {
  const found = slots([
    execution("e-2", "a[0]", 5, 500, 600),
    execution("e-1", "a[0]", 8, 0, 400),
    execution("e-3", "a[1]", 3, 0, 100),
  ], [
    event("e-1", 1, 2, 0),
    event("e-1", 2, 3, 100),
    event("e-1", 3, 3, 150),
    event("e-1", 3, 5, 200),
    event("e-1", 5, 8, 400),
    event("e-2", 2, 3, 520),
    event("e-2", 3, 5, 530),
    event("e-3", 2, 3, 50),
    { ...event("e-3", 3, 3, 60), Comment: "pulling busybox: 1.2 of 4 MB" },
  ]);
  const relative = found.map((slot) =>
    slot.attempts.map((attempt) =>
      attempt.phases.map((p) => [p.kind, Math.round(p.from - AT), p.to && Math.round(p.to - AT)])
    )
  );
  assertEquals(relative, [
    [
      [["offered", 0, 100], ["preparing", 100, 200], ["running", 200, 400]],
      [["offered", 500, 520], ["preparing", 520, 530], ["running", 530, 0]],
    ],
    [[["offered", 0, 50], ["fetching", 50, 0]]],
  ]);
});

Deno.test("ticks stand at round distances", () => {
  assertEquals(ticks(3300, 8), [0, 500, 1000, 1500, 2000, 2500, 3000]);
});

Deno.test("filters survive the URL", () => {
  const query =
    "name_prefix=web&namespace=docs&state=Pending%2CQueued&type=batch&labels=team%3Ddocs&since=1h&order=oldest";
  const filters = readFilters(new URLSearchParams(query));
  assertEquals(toQuery(filters).toString(), query);
  assertEquals(filters.asked(), {
    name_prefix: "web",
    namespace: "docs",
    state: "Pending,Queued",
    type: "batch",
    labels: "team=docs",
    created_after: "1h",
    created_before: "",
    order_by: "create_time",
    reverse: false,
  });
});

Deno.test("without filters all namespaces are listed, newest first", () => {
  const filters = readFilters(new URLSearchParams("order=nonsense"));
  assertEquals([filters.namespace, filters.order, filters.isNarrowed, toQuery(filters).toString()], [
    "*",
    "newest",
    false,
    "",
  ]);
});

Deno.test("of a node's states the one that needs someone comes first", () => {
  const look = (/** @type {any} */ more) =>
    nodeLook({
      NodeType: "Compute",
      Membership: "APPROVED",
      Connection: "CONNECTED",
      Eligibility: "ELIGIBLE",
      Health: { State: "HEALTHY" },
      ...more,
    }).word;
  assertEquals([
    look({}),
    look({ Membership: "PENDING", Connection: "DISCONNECTED" }),
    look({ Connection: "DISCONNECTED", Eligibility: "CORDONED" }),
    look({ Eligibility: "DRAINING" }),
    look({ Health: { State: "BACKING_OFF" } }),
  ], ["Connected", "Pending", "Silent", "Draining", "Backing-off"]);
});

Deno.test("executions end in every state but the four that lead to the run", () => {
  assertEquals([1, 2, 3, 4, 5, 6, 7, 8, 9].filter(isEndedExecution), [4, 6, 7, 8, 9]);
});
