// Submissions: fields of the form, places of problems, differences, drafts and copies.

import { assert, assertEquals } from "./assert.js";
import { asCurl, asJobctl, resubmittable } from "../assets/submit/copy.js";
import { diff, hunks } from "../assets/submit/diff.js";
import { bodyOf, inOwnLines, jobText, parseJob } from "../assets/submit/draft.js";
import { EXAMPLES } from "../assets/submit/examples.js";
import { fromText, GROUPS, read, toText, write } from "../assets/submit/fields.js";
import { lineOf } from "../assets/submit/locate.js";
import { firstExample } from "../assets/submit/start.js";

Deno.test("what a field writes it also reads", () => {
  /** @type {[import("../assets/submit/fields.js").Field["kind"], string][]} */
  const texts = [["text", "web"], ["number", "4"], ["lines", "sh\n-c\necho  two"], ["pairs", "A=1\nB=x=y"], [
    "paths",
    "outputs:/outputs",
  ], ["constraints", "zone in a,b\ngpu exists\nold absent\ncores gt 4"]];
  for (const [kind, text] of texts) assertEquals(toText(fromText(text, kind), kind), text, kind);
  assertEquals(fromText("4", "number"), 4);
  assertEquals(fromText("many", "number"), "many");
  assertEquals(fromText("zone=a", "constraints"), [{ Key: "zone", Operator: "=", Values: ["a"] }]);
  const test = (/** @type {string} */ line) => fromText(line, "constraints")[0];
  assertEquals(test("zone ~~ a"), { Key: "zone", Operator: "~~", Values: ["a"] });
  assertEquals(test("zone like a"), { Key: "zone", Operator: "like", Values: ["a"] });
  assertEquals(test("zone=~a"), { Key: "zone", Operator: "=~", Values: ["a"] });
  assertEquals(test("zone in (a, b)"), { Key: "zone", Operator: "in", Values: ["a", "b"] });
  assertEquals(test("zone != a"), { Key: "zone", Operator: "!=", Values: ["a"] });
  assertEquals(test('zone in "a,b", c'), { Key: "zone", Operator: "in", Values: ["a,b", "c"] });
  for (const line of ['zone in "a,b",c', 'zone = "say ""hi"""']) {
    assertEquals(toText(fromText(line, "constraints"), "constraints"), line);
  }
  assertEquals(test("cores>4"), { Key: "cores", Operator: "gt", Values: ["4"] });
  assertEquals(test("gpu"), { Key: "gpu", Operator: "exists", Values: [] });
  assertEquals(test("!old"), { Key: "old", Operator: "!", Values: [] });
  // A line without '=' is refused by the service, not emptied.
  assertEquals(fromText("A=1\nnokey", "pairs"), { A: "1", nokey: false });
  assertEquals(toText(fromText("A=1\nnokey", "pairs"), "pairs"), "A=1\nnokey");
  assertEquals(fromText("empty=", "pairs"), { empty: "" });
});

Deno.test("an emptied field takes its empty containers with it", () => {
  /** @type {any} */
  const job = { Tasks: [{ Engine: { Type: "docker", Params: { Image: "a" } } }] };
  write(job, "Tasks[0].Resources.CPU", "1");
  assertEquals(read(job, "Tasks[0].Resources.CPU"), "1");
  write(job, "Tasks[0].Resources.CPU", undefined);
  assertEquals(job, { Tasks: [{ Engine: { Type: "docker", Params: { Image: "a" } } }] });
});

Deno.test("one begins with an example that some node can run", () => {
  const node = (/** @type {string[]} */ ...ExecutionEngines) => ({
    Connection: "CONNECTED",
    ComputeNodeInfo: { ExecutionEngines },
  });
  const away = { ...node("wasm"), Connection: "DISCONNECTED" };
  const name = (/** @type {import("../types.d.ts").Json[]} */ ...nodes) => firstExample(nodes).name;
  assertEquals(name(), "Hello");
  assertEquals(name(node("docker", "wasm")), "Hello");
  assertEquals(name(node("docker"), node("wasm")), "Hello");
  assertEquals(name(node("docker"), away), "Container");
  assertEquals(name(node("noop")), "Hello");
});

Deno.test("every example sets only what the form or the API knows", () => {
  const paths = GROUPS.flatMap((group) => group.fields.map((field) => field.path));
  assert(paths.includes("Tasks[0].Engine.Params.Image"));
  for (const example of EXAMPLES) {
    assert(["batch", "service", "ops", "daemon"].includes(example.job.Type), example.name);
    assertEquals(example.job.Tasks.length, 1);
  }
  const module = EXAMPLES[0].job.Tasks[0].Engine.Params.EntryModule.Source.Params.URL;
  const bytes = atob(module.slice(module.indexOf(",") + 1));
  assertEquals(bytes.slice(0, 4), "\0asm");
  assert(bytes.length < 1024, "the first example is a module under 1 kB");
  assert(WebAssembly.validate(Uint8Array.from(bytes, (c) => c.charCodeAt(0))));
});

Deno.test("the first example prints its line", () => {
  const url = EXAMPLES[0].job.Tasks[0].Engine.Params.EntryModule.Source.Params.URL;
  const code = Uint8Array.from(atob(url.slice(url.indexOf(",") + 1)), (c) => c.charCodeAt(0));
  let printed = "";
  /** @type {any} */
  const instance = new WebAssembly.Instance(new WebAssembly.Module(code), {
    wasi_snapshot_preview1: {
      fd_write: (/** @type {number} */ fd, /** @type {number} */ at) => {
        const [from, length] = new Uint32Array(instance.exports.memory.buffer, at, 2);
        printed += `${fd}: ${
          new TextDecoder().decode(new Uint8Array(instance.exports.memory.buffer, from, length))
        }`;
        return 0;
      },
    },
  });
  instance.exports._start();
  assertEquals(printed, "1: Hello from WebAssembly!\n");
});

Deno.test("a problem's path leads to its line", () => {
  const text = jobText({
    Name: "a",
    Type: "weekly",
    Tasks: [{ Name: "main", Engine: { Type: "docker", Params: {} } }],
  });
  const at = (/** @type {string} */ path) => text.split("\n")[lineOf(text, path) - 1].trim();
  assertEquals(at("Type"), '"Type": "weekly",');
  assertEquals(at("Tasks[0].Engine.Type"), '"Type": "docker",');
  assertEquals(at("Tasks[0].Engine.Params.Image"), '"Params": {}');
  assertEquals(lineOf('{"a":[{"b":1},\n{"b":2}]}', "a[1].b"), 2);
});

Deno.test("differences are lines, with lines around them", () => {
  const lines = diff("a\nb\nc\nd\ne\nf\ng\nh", "a\nb\nc\nX\ne\nf\ng\nh");
  assertEquals(lines.filter((line) => line.kind !== "same"), [{ kind: "removed", text: "d" }, {
    kind: "added",
    text: "X",
  }]);
  assertEquals(hunks(lines, 1).map((line) => line?.text ?? "…"), ["…", "c", "d", "X", "e", "…"]);
  assertEquals(hunks(diff("a", "a"), 1).filter(Boolean), []);
});

Deno.test("JSON and YAML get the wrapper once", () => {
  assertEquals(bodyOf('{"Name": "a"}'), { body: '{"Job":{"Name":"a"}}', type: "application/json", above: 0 });
  assertEquals(bodyOf('{"job": {"Name": "a"}}'), {
    body: '{"Job":{"Name":"a"}}',
    type: "application/json",
    above: 0,
  });
  assertEquals(bodyOf("Name: a\nType: batch"), {
    body: "Job:\n  Name: a\n  Type: batch",
    type: "application/yaml",
    above: 1,
  });
  assertEquals(bodyOf("# mine\nJob:\n  Name: a").body, "# mine\nJob:\n  Name: a");
});

Deno.test("a message about wrapped YAML names the lines of the text", () => {
  const message = "did not find ']' at line 7 column 3, while parsing at line 5 column 13";
  assertEquals(
    inOwnLines(message, 1),
    "did not find ']' at line 6 column 1, while parsing at line 4 column 11",
  );
  assertEquals(inOwnLines(message, 0), message);
});

Deno.test("a text that is not JSON is sent as it is, so that the service names its line", () => {
  const text = '{\n  "Job": {\n    "Name": oops\n  }\n}';
  assert("problem" in parseJob(text));
  assertEquals(bodyOf(text), { body: text, type: "application/json", above: 0 });
});

const RECORD = {
  ID: "j-62df246c-d5cc-4c6d-aef9-bd480ed3b259",
  Name: "it's",
  Namespace: "default",
  Type: "batch",
  Priority: 0,
  Count: 2,
  Constraints: [],
  Meta: { "service.org/requester.id": "n-1" },
  Labels: {},
  RetryPolicy: { Attempts: 0, Delay: 1, MaxDelay: 60 },
  Tasks: [{
    Name: "main",
    Engine: { Type: "docker", Params: { Image: "a" } },
    Publisher: { Type: "", Params: {} },
    Env: {},
    Meta: {},
    InputSources: [{ Source: { Type: "inline", Params: { URL: "data:," } }, Target: "/in", Alias: "" }],
    ResultPaths: [],
    Resources: { CPU: "0.5", Memory: "", Disk: "", GPU: "" },
    Network: { Type: "None" },
    Timeouts: { ExecutionTimeout: 0, QueueTimeout: 5, TotalTimeout: 0, LostAfter: 0 },
  }],
  State: { StateType: "Completed", Message: "" },
  Version: 1,
  Revision: 3,
  CreateTime: 1,
  ModifyTime: 2,
};

Deno.test("a record is submitted again without what the service sets", () => {
  assertEquals(resubmittable(RECORD), {
    Name: "it's",
    Namespace: "default",
    Type: "batch",
    Priority: 0,
    Count: 2,
    RetryPolicy: { Attempts: 0, Delay: 1, MaxDelay: 60 },
    Tasks: [{
      Name: "main",
      Engine: { Type: "docker", Params: { Image: "a" } },
      InputSources: [{ Source: { Type: "inline", Params: { URL: "data:," } }, Target: "/in" }],
      Resources: { CPU: "0.5" },
      Network: { Type: "None" },
      Timeouts: { QueueTimeout: 5 },
    }],
  });
});

Deno.test("a job is copied as commands that the shell reads back", () => {
  const curl = asCurl({ Name: "it's" }, "http://h:1234");
  assertEquals(
    curl,
    `curl -sS --fail-with-body -X PUT http://h:1234/api/v1/orchestrator/jobs -H 'Content-Type: application/json' -d '{"Job":{"Name":"it'\\''s"}}'`,
  );
  assert(
    asJobctl({ Name: "a" }, "http://h:1234").startsWith("jobctl --url http://h:1234 submit - <<'END'\n{\n"),
  );
});
