// The chain of the audit log: whether each record is as it was sealed, and follows the one before.

/** @import { AuditRecord } from "../../types.d.ts" */

/** What the hash of a record covers, as docs/api.md has it. @param {AuditRecord} record */
export function sealedText(record) {
  const {
    Chain,
    Sequence,
    Count,
    Time,
    User,
    TokenID,
    Address,
    Operation,
    Object,
    RequestID,
    Outcome,
    Previous,
  } = record;
  const texts = [Time, User, TokenID, Address, Operation, Object, RequestID, Outcome, Previous];
  // Records of changes are sealed as they were when there was one chain.
  const chain = Chain === "changes" ? [] : [Chain];
  return [...chain, Sequence, Count, ...texts.map((text) => JSON.stringify(text))].map((line) => `${line}\n`)
    .join("");
}

/** @param {AuditRecord} record */
async function hashOf(record) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(sealedText(record)));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * What is wrong with records that are read newest first; "" if nothing is.
 * @param {AuditRecord[]} records @param {boolean} whole whether none between them was left out by a filter
 */
export async function faultOf(records, whole) {
  const hashes = await Promise.all(records.map(hashOf));
  for (const [at, record] of records.entries()) {
    if (hashes[at] !== record.Hash) {
      return `record ${record.Sequence} was changed: its hash does not match it`;
    }
    const before = records[at + 1];
    if (!whole || !before) continue;
    if (before.Sequence !== record.Sequence - 1) {
      return `records after ${before.Sequence} and before ${record.Sequence} were removed`;
    }
    if (before.Hash !== record.Previous) {
      return `record ${record.Sequence} does not follow record ${before.Sequence}`;
    }
  }
  return "";
}
