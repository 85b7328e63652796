// Who may do what, signing in and out, and what happens when the service asks for a token.

import { assert, assertEquals } from "./assert.js";
import { hostOf, loginPath, problemText } from "../assets/access/issuer.js";
import {
  credentialArguments,
  credentialBody,
  ENCODED,
  namespaceArguments,
  permissionText,
  shellBody,
  tokenArguments,
} from "../assets/access/lines.js";
import { roleText } from "../assets/account.js";
import { curl, jobctl } from "../assets/commands.js";
import { readFilters, toQuery } from "../assets/jobs/filters.js";
import { accessOf, homeOf, may, session } from "../assets/session.js";
import { followChanges } from "../assets/stream.js";
import { atHome } from "../assets/submit/start.js";

/** @param {string} Role @param {string[]} Namespaces */
const who = (Role, ...Namespaces) => ({ Name: "a", Role, Namespaces, TokenID: "1", ExpireTime: "" });

/** Answers requests instead of a server. @param {(url: string) => Response} answer @param {() => Promise<void>} test */
async function answered(answer, test) {
  const { fetch } = globalThis;
  globalThis.fetch = (url) => Promise.resolve(answer(String(url)));
  try {
    await test();
  } finally {
    globalThis.fetch = fetch;
  }
}

Deno.test("a role allows what docs/security.md says, in its namespaces", () => {
  assert(!may(who("viewer", "ci"), "submit"));
  assert(may(who("submitter", "ci"), "submit"));
  assert(may(who("submitter", "ci"), "submit", "ci"));
  assert(!may(who("submitter", "ci"), "submit", "docs"));
  assert(may(who("owner", "*"), "submit", "docs"));
  assert(!may(who("operator", "*"), "submit", "docs"), "an operator submits nowhere");
  assert(may(who("admin"), "submit", "docs"));
  assertEquals(
    ["viewer", "submitter", "owner", "operator", "admin"].map((role) =>
      /** @type {const} */ (["operate", "tokens", "secrets", "setSecrets", "namespaces", "audit"]).filter((
        action,
      ) => may(who(role, "*"), action))
    ),
    [
      [],
      ["secrets"],
      ["tokens", "secrets", "setSecrets"],
      ["operate"],
      ["operate", "tokens", "secrets", "setSecrets", "namespaces", "audit"],
    ],
  );
});

Deno.test("the pages of Access begin where a role may read", () => {
  assertEquals(
    ["viewer", "submitter", "owner", "operator", "admin"].map((role) => accessOf(who(role, "*"))),
    ["", "/access/secrets", "/access", "/access/join-tokens", "/access"],
  );
});

Deno.test("a role is shown with its namespaces", () => {
  assertEquals(roleText(who("viewer", "ci")), "viewer in ci");
  assertEquals(roleText(who("owner", "ci", "docs")), "owner in ci and docs");
  assertEquals(roleText(who("owner", "a", "b", "c")), "owner in 3 namespaces");
  assertEquals(roleText(who("submitter", "*")), "submitter everywhere");
  assertEquals(roleText(who("admin", "*")), "admin");
});

Deno.test("lists and new jobs begin in the only namespace of a role", () => {
  assertEquals([who("viewer", "ci"), who("viewer", "default"), who("admin", "*")].map(homeOf), [
    "ci",
    "",
    "",
  ]);
  assertEquals(homeOf(who("viewer", "ci", "docs")), "");
  assertEquals(atHome({ Name: "a", Count: 1 }, "ci"), { Name: "a", Namespace: "ci", Count: 1 });
  assertEquals(atHome({ Name: "a" }, ""), { Name: "a" });
  const before = session.who;
  session.who = who("submitter", "ci");
  try {
    const usual = readFilters(new URLSearchParams());
    assertEquals([usual.namespace, toQuery(usual).toString(), usual.isNarrowed], ["ci", "", false]);
    const all = readFilters(new URLSearchParams("namespace=*"));
    assertEquals([all.asked().namespace, toQuery(all).toString()], ["*", "namespace=*"]);
  } finally {
    session.who = before;
  }
});

Deno.test("what the Access page does is copied as commands", () => {
  const token = {
    Name: "build server",
    Role: "submitter",
    Namespaces: ["ci", "docs"],
    TTLSeconds: 2_592_000,
  };
  assertEquals(
    jobctl(tokenArguments(token), "http://localhost:1"),
    "jobctl --url http://localhost:1 token create 'build server' --role submitter --namespace ci --namespace docs --ttl 720h",
  );
  assertEquals(
    tokenArguments({ ...token, Role: "admin", Namespaces: [], TTLSeconds: 0 }).join(" "),
    "token create build server --role admin",
  );
  const Permissions = { Engines: ["wasm"], Networks: [], Publishers: ["local", "s3"] };
  assertEquals(
    jobctl(
      namespaceArguments({ Name: "ci", Description: "it's CI", Permissions, Nodes: "pool=ci" }),
      "http://localhost:1",
    ),
    `jobctl --url http://localhost:1 namespace put ci --description 'it'\\''s CI' --engines wasm --networks '' --publishers local,s3 --nodes pool=ci`,
  );
  assertEquals(permissionText(Permissions), "engines: wasm; networks: nothing; publishers: local, s3");
  assertEquals(permissionText({}), "everything");
  const bounded = { Registries: ["docker.io", "host:5000"], Capabilities: false };
  assertEquals(
    namespaceArguments({ Name: "ci", Description: "", Permissions: bounded, Nodes: "", MaxPriority: 0 }).join(
      " ",
    ),
    "namespace put ci --registries docker.io,host:5000 --no-capabilities --max-priority 0",
  );
  const Quota = { CPU: "4", QueuedExecutions: 0 };
  assertEquals(
    namespaceArguments({ Name: "ci", Description: "", Permissions: {}, Nodes: "", Quota }).join(" "),
    "namespace put ci --quota-cpu 4 --quota-queued 0",
  );
  assertEquals(
    namespaceArguments({ Name: "ci", Description: "", Permissions: {}, Nodes: "", Weight: 3 }).join(" "),
    "namespace put ci --weight 3",
  );
  assertEquals(permissionText(bounded), "registries: docker.io, host:5000; no capabilities");
});

Deno.test("a line of curl takes the token from a variable, where one is asked for", () => {
  const line = () => curl("DELETE", "/api/v1/orchestrator/tokens/1", { origin: "http://localhost:1" });
  const url = "http://localhost:1/api/v1/orchestrator/tokens/1";
  assertEquals(line(), `curl -sS --fail-with-body -X DELETE ${url}`);
  const before = session.who;
  session.who = who("admin", "*");
  try {
    assertEquals(line(), `curl -sS --fail-with-body -X DELETE ${url} -H "Authorization: Bearer $TOKEN"`);
  } finally {
    session.who = before;
  }
});

Deno.test("a session is asked for once, ends with a reason, and begins again", async () => {
  /** @type {string[]} */
  const seen = [];
  const note = () => seen.push(`${session.asks || "open"} as ${session.who.Name}`);
  const begun = () => seen.push("begin");
  session.addEventListener("change", note);
  session.addEventListener("begin", begun);
  let requests = 0;
  let answer = () => new Response(null, { status: 401 });
  const local = session.who;
  await answered(() => (requests += 1, answer()), async () => {
    await Promise.all([session.check(), session.check()]);
    assertEquals(requests, 1, "callers at the same time share a request");
    await session.check();
    // A refusal from before the token was taken says nothing.
    const late = session.check();
    session.begin(who("viewer", "ci"));
    await late;
    await session.check();
    answer = () => Response.json(who("submitter", "ci"));
    await session.check();
    session.leave();
    answer = () => new Response(null, { status: 503 });
    await session.check();
    answer = () => Response.json(local);
    await session.check();
    // Whom a cookie was given to before this page was opened has not just signed in.
    answer = () => Response.json(who("viewer", "ci"));
    await session.check();
    answer = () => Response.json({ ...who("admin", "*"), TokenID: "2" });
    await session.check();
    session.leave();
    answer = () => Response.json(local);
    await session.check();
  });
  session.removeEventListener("change", note);
  session.removeEventListener("begin", begun);
  assertEquals(seen, [
    ...["first as local", "open as a", "begin"],
    ...["ended as local", "open as a", "begin"],
    ...["left as local", "open as local", "begin"],
    "open as a",
    ...["open as a", "begin"],
    ...["left as local", "open as local", "begin"],
  ]);
});

Deno.test("a stream that is refused for want of a token is not asked for again", async () => {
  const before = globalThis.EventSource;
  let opened = 0;
  /** @type {(() => void) | null} */
  let fail = null;
  const scope = /** @type {any} */ (globalThis);
  scope.EventSource = class {
    static CLOSED = 2;
    readyState = 2;
    constructor() {
      opened += 1;
    }
    close() {}
    /** @param {string} name @param {() => void} listener */
    addEventListener(name, listener) {
      if (name === "error") fail = listener;
    }
  };
  /** @type {string[]} */
  const urls = [];
  const answer = (/** @type {string} */ url) => (urls.push(url), new Response(null, { status: 401 }));
  await answered(answer, async () => {
    const told = Promise.withResolvers();
    const stop = followChanges((message) => told.resolve(message));
    /** @type {any} */ (fail)();
    assertEquals(await told.promise, { kind: "state", state: "signedOut" });
    stop();
  });
  scope.EventSource = before;
  assertEquals(opened, 1);
  assertEquals(urls, ["/api/v1/auth/identity"]);
});

Deno.test("a sign-in at an issuer begins with the page that was asked for and ends with a sentence", () => {
  assertEquals(loginPath("/jobs?labels=a&b#end"), "/api/v1/auth/login?to=%2Fjobs%3Flabels%3Da%26b%23end");
  assertEquals(hostOf("https://keycloak.example.com:8443/realms/main"), "keycloak.example.com:8443");
  assertEquals(hostOf("nowhere"), "nowhere");
  assertEquals(problemText("rules").includes("no rule of this service gives you a role"), true);
  assertEquals(problemText("<b>new</b>"), problemText("refused"));
});

Deno.test("credentials are what their type has, and a line for the terminal has no secret in it", () => {
  const credential = {
    Name: "store",
    Namespace: "ci",
    Type: "s3",
    Hosts: ["*.a.b"],
    Buckets: ["c"],
    User: "AK",
  };
  assertEquals(
    credentialArguments(credential).join(" "),
    [
      "credential set store --namespace ci --type s3",
      "--host *.a.b --bucket c --access-key-id AK",
    ].join(" "),
  );
  const login = (/** @type {string} */ Type, /** @type {string} */ User) =>
    credentialBody({ ...credential, Type, User }, "x").Login;
  assertEquals(credentialBody(credential, "x").Buckets, ["c"]);
  assertEquals(login("s3", "AK"), { AccessKeyID: "AK", SecretAccessKey: "x" });
  assertEquals(login("registry", "ci"), { Username: "ci", Password: "x" });
  assertEquals(login("http", ""), { Token: "x" });
  assertEquals(
    shellBody((Data) => ({ Data, Of: "it's" }), ENCODED),
    `'{"Data":"'"$(printf %s "$SECRET" | base64 -w0)"'","Of":"it'\\''s"}'`,
  );
});
