// Lists that are read at a glance: orders of executions, equal failures, outcomes and charts.

import { assertEquals } from "./assert.js";
import { axisEnd, linePath } from "../assets/elements/chart.js";
import { addEvent } from "../assets/elements/fold.js";
import { lastAttempts, sorted } from "../assets/job/order.js";
import { timesOf, usageText } from "../assets/job/usage.js";
import { usedText } from "../assets/job/used.js";
import { alikeJobs, runsOfFailures } from "../assets/jobs/alike.js";

/** @param {string} name @param {number} state @param {number} from @param {number} to */
function execution(name, state, from, to) {
  return /** @type {any} */ ({
    ID: `${name} ${from}`,
    Name: name,
    NodeID: "",
    ComputeState: { StateType: state, Message: "" },
    CreateTime: from * 1e6,
    ModifyTime: to * 1e6,
  });
}

const ROWS = [
  execution("a[10]", 7, 0, 100),
  execution("a[2]", 8, 0, 300),
  execution("a[2]", 5, 400, 450),
  execution("a[1]", 7, 0, 200),
];

Deno.test("executions are in the order of their indexes, and of their attempts", () => {
  const order = (/** @type {any} */ by, down = false) => sorted(ROWS, { by, down }, 500).map(({ ID }) => ID);
  assertEquals(order("index"), ["a[1] 0", "a[2] 0", "a[2] 400", "a[10] 0"]);
  assertEquals(order("state"), ["a[2] 0", "a[2] 400", "a[1] 0", "a[10] 0"]);
  assertEquals(order("duration", true), ["a[2] 0", "a[1] 0", "a[2] 400", "a[10] 0"]);
  assertEquals(lastAttempts(ROWS).map(({ ID }) => ID), ["a[1] 0", "a[2] 400", "a[10] 0"]);
});

/** @param {string} id @param {string} name @param {string} state @param {string} message */
function job(id, name, state, message) {
  return /** @type {any} */ ({
    ID: `j-${id}`,
    Name: name,
    Namespace: "default",
    State: { StateType: state, Message: message },
  });
}

Deno.test("jobs that failed in the same way are one, whatever their IDs and made names", () => {
  const jobs = [
    job("4f2a0000-1", "busybox-4f2a", "Failed", "[0] on node-a: exit code 1"),
    job("77770000-2", "busybox-7777", "Failed", "[3] on node-b: exit code 1"),
    job("88880000-3", "report", "Failed", "[0] on node-a: exit code 1"),
    job("99990000-4", "busybox-9999", "Failed", "[0] on node-a: exit code 1"),
  ];
  assertEquals(alikeJobs(jobs).map(({ job, others }) => [job.Name, others.length]), [
    ["busybox-4f2a", 2],
    ["report", 0],
  ]);
  // In a list only neighbours are folded, since rows stay where they are.
  assertEquals(runsOfFailures(jobs).map(({ job, others }) => [job.Name, others.length]), [
    ["busybox-4f2a", 1],
  ]);
  const running = jobs.map((one) => ({ ...one, State: { StateType: "Running", Message: "" } }));
  assertEquals(runsOfFailures(running), []);
});

Deno.test("axes end at round numbers with a round half", () => {
  assertEquals([0.2, 0.7, 1, 3, 5, 7.9, 8, 64, 130].map(axisEnd), [0.2, 0.8, 1, 4, 6, 8, 8, 80, 200]);
});

Deno.test("a line is broken where nothing was measured", () => {
  const same = (/** @type {number} */ value) => value;
  assertEquals(linePath([0, 1, 2, 3], [1, 2, null, 4], same, same), "M0.0 1.0L1.0 2.0M3.0 4.0");
  assertEquals(linePath([0, 1, 2, 9], [1, 1, 1, 1], same, same), "M0.0 1.0L1.0 1.0L2.0 1.0M9.0 1.0");
});

Deno.test("what an execution uses is said in one line", () => {
  const used = (/** @type {any} */ usage, state = 5) =>
    usedText(
      /** @type {any} */ ({
        Usage: usage,
        AllocatedResources: { Tasks: { main: { CPU: 0.2, Memory: 128e6, Disk: 0, GPU: 0 } } },
        ComputeState: { StateType: state },
      }),
    );
  const usage = { CPU: 0.002, CPUSeconds: 0.5, Memory: 1.9e6, MemoryPeak: 3.7e6 };
  assertEquals(used(usage), "CPU 0.002 of 0.2 cores · 1.9 of 128 MB, peak 3.7 MB");
  assertEquals(used(usage, 7), "0.5 s of CPU time · memory peak 3.7 of 128 MB");
  assertEquals(used(null), "");
});

Deno.test("a curve begins with its first point and ends with its last, which may be shorter", () => {
  const curve = { BeginTime: 10e9, EndTime: 15e9, Step: 2, CPU: [0.5, 1, 1], Memory: [1, 2, 3] };
  assertEquals(timesOf(curve), [10_000, 12_000, 14_000, 15_000]);
  const given = { CPU: 1, Memory: 64e6, Disk: 0, GPU: 0 };
  assertEquals(usageText(0.5, 12e6, given), "CPU 0.5 of 1 core · memory 12 of 64 MB");
  assertEquals(usageText(1, 12e6, { ...given, CPU: 0, Memory: 0 }), "CPU 1 core · memory 12 MB");
});

Deno.test("a row that stands for equal events counts all of them and keeps few", () => {
  /** @type {any[]} */
  const rows = [];
  for (let at = 0; at < 5000; at += 1) {
    addEvent(
      rows,
      /** @type {any} */ ({
        Type: "ExecutionLevel",
        JobID: "j-1",
        NodeID: "n-1",
        ExecutionID: `e-${at}`,
        ExecutionState: { Previous: 5, New: 7 },
        Comment: "completed",
        Time: new Date(1e12 + at).toISOString(),
      }),
    );
  }
  assertEquals([rows.length, rows[0].count, rows[0].events.length], [1, 5000, 100]);
  assertEquals([rows[0].events[0].ExecutionID, rows[0].events[99].ExecutionID], ["e-0", "e-4999"]);
});
