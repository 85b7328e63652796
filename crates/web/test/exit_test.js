// What a failed execution says: exit codes in words, the last lines it printed, and equal failures as one.

import { assertEquals } from "./assert.js";
import { alike, exitWords, lastLines, whatHappened } from "../assets/job/exit.js";

/** @param {string} message @param {number} code @param {string} [node] */
function failed(message, code, node = "n-1") {
  return /** @type {any} */ ({
    NodeID: node,
    ComputeState: { StateType: 8, Message: message },
    RunOutput: { exitCode: code },
  });
}

Deno.test("exit codes are explained where they have a meaning of their own", () => {
  assertEquals([3, 126, 127, 137, 139, 143].map(exitWords), [
    "exited with 3",
    "exited with 126 (not executable)",
    "exited with 127 (command not found)",
    "exited with 137 (SIGKILL)",
    "exited with 139 (SIGSEGV)",
    "exited with 143 (SIGTERM)",
  ]);
});

Deno.test("what happened comes before what the message adds, and no code is shown where no process ran", () => {
  assertEquals(whatHappened(failed("exit code 3", 3)), { what: "exited with 3", more: "" });
  assertEquals(whatHappened(failed("exit code 139 (SIGSEGV)", 139)), {
    what: "exited with 139 (SIGSEGV)",
    more: "",
  });
  assertEquals(whatHappened(failed("exit code 3; result path 'out' does not exist", 3)), {
    what: "exited with 3",
    more: "result path 'out' does not exist",
  });
  assertEquals(whatHappened(failed("out of memory", 137)), {
    what: "exited with 137 (SIGKILL)",
    more: "out of memory",
  });
  assertEquals(whatHappened(failed("image not found", -1)), { what: "failed", more: "image not found" });
});

Deno.test("the last lines are those of standard error, or else of standard output", () => {
  const lines = Array.from({ length: 20 }, (_, at) => `line ${at}`);
  assertEquals(lastLines({ stderr: `${lines.join("\n")}\n`, stdout: "ok\n" }, 2), {
    stream: "stderr",
    lines: ["line 18", "line 19"],
    isCut: true,
  });
  assertEquals(lastLines({ stderr: "", stdout: "ok\n" }, 2), {
    stream: "stdout",
    lines: ["ok"],
    isCut: false,
  });
  assertEquals(lastLines({ stderr: "begin", stderrtail: "end\n", stderrtruncated: true }, 2), {
    stream: "stderr",
    lines: ["end"],
    isCut: true,
  });
  assertEquals(lastLines({ stderr: "\n", stdout: "" }, 2), null);
  assertEquals(lastLines(undefined, 2), null);
});

Deno.test("equal failures are one, with all their nodes", () => {
  const found = alike([failed("a", -1), failed("exit code 1", 1), failed("a", -1, "n-2"), failed("a", -1)]);
  assertEquals(found.map(({ count, nodes }) => [count, nodes]), [[3, ["n-1", "n-2"]], [1, ["n-1"]]]);
});
