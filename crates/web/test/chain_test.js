// The chain of the audit log: what was changed, removed or put in place of another is found.

import { assertEquals } from "./assert.js";
import { faultOf, sealedText } from "../assets/access/chain.js";
import { auditArguments, joinTokenArguments, labelsOf } from "../assets/access/lines.js";

/** @import { AuditRecord } from "../types.d.ts" */

/** @type {AuditRecord} */
const FIRST = {
  Chain: "changes",
  Sequence: 1,
  Time: "2026-01-02T03:04:05.000000000Z",
  User: 'it "名"\n',
  TokenID: "t",
  Address: "::1",
  Operation: "stopJob",
  Object: "j-1",
  RequestID: "r",
  Outcome: "done",
  Count: 1,
  Previous: "",
  // Computed by another program from the rule in docs/api.md.
  Hash: "a52ffb5d02a8a2d7c0c1a3b91ad4d7d142c652411839d310c15ddaa7ac4b4b4b",
};

/** @param {AuditRecord} record */
async function sealed(record) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sealedText(record)));
  return {
    ...record,
    Hash: [...new Uint8Array(digest)].map((b) => b.toString(16).padStart(2, "0")).join(""),
  };
}

/** Newest first, as the page reads them. @param {number} length */
async function chain(length) {
  const records = [FIRST];
  while (records.length < length) {
    const [{ Sequence, Hash }] = records;
    records.unshift(await sealed({ ...FIRST, Sequence: Sequence + 1, Previous: Hash }));
  }
  return records;
}

Deno.test("a record of one chain does not pass for one of the other", async () => {
  assertEquals(sealedText({ ...FIRST, Chain: "rest" }), `rest\n${sealedText(FIRST)}`);
  assertEquals(
    await faultOf([{ ...FIRST, Chain: "rest" }], false),
    "record 1 was changed: its hash does not match it",
  );
});

Deno.test("an intact chain is intact, whole or in parts", async () => {
  assertEquals(await faultOf([FIRST], true), "");
  const records = await chain(4);
  assertEquals(await faultOf(records, true), "");
  assertEquals(await faultOf([records[0], records[3]], false), "");
});

Deno.test("what was changed, removed or resealed is found", async () => {
  const records = await chain(4);
  assertEquals(
    await faultOf(records.with(2, { ...records[2], Object: "j-9" }), false),
    "record 2 was changed: its hash does not match it",
  );
  assertEquals(
    await faultOf(records.toSpliced(1, 1), true),
    "records after 2 and before 4 were removed",
  );
  assertEquals(
    await faultOf(records.with(2, await sealed({ ...records[2], User: "other" })), true),
    "record 3 does not follow record 2",
  );
});

Deno.test("join tokens and records of the audit log are arguments of jobctl", () => {
  assertEquals(labelsOf(" zone=a\n\nnote=x=y\ngpu"), { zone: "a", note: "x=y", gpu: "" });
  const token = {
    TTLSeconds: 86_400,
    Uses: 3,
    Labels: { zone: "a" },
    NodeID: "n-1",
    Bounds: { CPU: 1.5, Memory: 64, Disk: 0, GPU: 0 },
  };
  assertEquals(joinTokenArguments(token), [
    ...["node", "token", "--ttl", "24h", "--uses", "3", "--label", "zone=a", "--for", "n-1"],
    ...["--max-cpu", "1.5", "--max-memory", "64GB"],
  ]);
  assertEquals(auditArguments({ chain: "", user: "night shift", operation: "", since: "1h" }, 100), [
    ...["audit", "list", "--user", "night shift", "--since", "1h", "--limit", "100"],
  ]);
});
