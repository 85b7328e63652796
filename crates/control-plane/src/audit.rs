//! The audit log as a chain: each record has the hash of the one before.
//!
//! A record that was changed or removed breaks the chain where it was. An attacker who can write to
//! the database can rebuild the whole chain; the same records in the service's log, and a hash that
//! was noted elsewhere, reveal that.

use api_types::Timestamp;
use api_types::audit::{AuditOutcome, AuditRecord};
use sha2::{Digest, Sha256};

/// Records that are kept, the newest: half a gigabyte. Each new one beyond removes the oldest.
pub const AUDIT_RECORDS: u64 = 1_000_000;

/// Submissions that one record stands for at most, so that its object stays short enough to read.
const MERGED: u64 = 32;

/// Entries of a commit among which a submission looks for one of its caller.
const LOOKED_AT: usize = 16;

/// What a request adds to the log if it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub time: Timestamp,
    pub user: String,
    pub token_id: String,
    pub address: String,
    pub operation: &'static str,
    pub object: String,
    pub request_id: String,
    pub outcome: AuditOutcome,
    pub count: u64,
}

/// What the requests of one commit add to the log.
///
/// Submissions of one caller share a record: a crowd of them would soon push everything else out of
/// the log.
#[derive(Debug, Default)]
pub(crate) struct Entries(Vec<AuditEntry>);

/// Where the log ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// 0 for an empty log.
    pub sequence: u64,
    pub hash: String,
}

// === impl Entries ===

impl Entries {
    pub(crate) fn push(&mut self, entry: AuditEntry) {
        self.0.push(entry);
    }

    /// Adds a submission, whose object is its job.
    pub(crate) fn submitted(&mut self, entry: AuditEntry) {
        let mut latest = self.0.iter_mut().rev().take(LOOKED_AT);
        match latest.find(|before| before.count < MERGED && before.is_alike(&entry)) {
            Some(before) => {
                before.object.push(' ');
                before.object.push_str(&entry.object);
                before.count += entry.count;
            }
            None => self.0.push(entry),
        }
    }

    pub(crate) fn seal(self, chain: &mut Chain) -> Vec<AuditRecord> {
        self.0.into_iter().map(|entry| chain.seal(entry)).collect()
    }
}

// === impl AuditEntry ===

impl AuditEntry {
    /// Whether they differ in time, object and request alone.
    fn is_alike(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.token_id == other.token_id
            && self.user == other.user
            && self.address == other.address
            && self.outcome == other.outcome
    }
}

// === impl Chain ===

impl Chain {
    /// Appends a record.
    pub(crate) fn seal(&mut self, entry: AuditEntry) -> AuditRecord {
        let AuditEntry {
            time,
            user,
            token_id,
            address,
            operation,
            object,
            request_id,
            outcome,
            count,
        } = entry;
        let mut record = AuditRecord {
            sequence: self.sequence + 1,
            time: time.rfc3339(),
            user,
            token_id,
            address,
            operation: operation.to_owned(),
            object,
            request_id,
            outcome,
            count,
            previous: std::mem::take(&mut self.hash),
            hash: String::new(),
        };
        record.hash = hash(&record);
        *self = Self { sequence: record.sequence, hash: record.hash.clone() };
        record
    }
}

/// The hash that belongs to a record.
pub fn hash(record: &AuditRecord) -> String {
    let digest = Sha256::digest(record.sealed_text());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(object: &str) -> AuditEntry {
        AuditEntry {
            time: Timestamp(1_700_000_000_000_000_000),
            user: "it".to_owned(),
            token_id: "t".to_owned(),
            address: "127.0.0.1".to_owned(),
            operation: "stopJob",
            object: object.to_owned(),
            request_id: "r".to_owned(),
            outcome: AuditOutcome::Done,
            count: 1,
        }
    }

    #[test]
    fn submissions_of_one_caller_share_a_record_up_to_a_bound() {
        let of = |user: &str, object: &str| AuditEntry {
            user: user.to_owned(),
            operation: "createJob",
            ..entry(object)
        };
        let mut entries = Entries::default();
        entries.submitted(of("a", "j-1"));
        entries.submitted(of("b", "j-2"));
        entries.push(entry("j-1"));
        entries.submitted(of("a", "j-3"));
        let mut chain = Chain::default();
        let records = entries.seal(&mut chain);
        let summary = |record: &AuditRecord| (record.object.clone(), record.count);
        assert_eq!(
            records.iter().map(summary).collect::<Vec<_>>(),
            [("j-1 j-3".to_owned(), 2), ("j-2".to_owned(), 1), ("j-1".to_owned(), 1)]
        );
        assert_eq!(chain.sequence, 3);

        let mut entries = Entries::default();
        (0..10_000).for_each(|_| entries.submitted(of("a", "j")));
        let records = entries.seal(&mut chain);
        assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), 10_000);
        assert_eq!(records.len() as u64, 10_000_u64.div_ceil(MERGED));
        assert!(records.iter().all(|record| hash(record) == record.hash));
    }

    #[test]
    fn every_field_is_sealed() {
        let mut chain = Chain::default();
        let first = chain.seal(entry("a"));
        let second = chain.seal(entry("b"));
        assert_eq!((first.sequence, first.previous.as_str()), (1, ""));
        assert_eq!((second.sequence, &second.previous), (2, &first.hash));
        assert_eq!(chain, Chain { sequence: 2, hash: second.hash.clone() });
        let changed = |change: fn(&mut AuditRecord)| {
            let mut record = second.clone();
            change(&mut record);
            assert_ne!(hash(&record), second.hash);
        };
        changed(|record| record.sequence += 1);
        changed(|record| record.time.push('0'));
        changed(|record| record.user.push('x'));
        changed(|record| record.token_id.push('x'));
        changed(|record| record.address.push('x'));
        changed(|record| record.operation.push('x'));
        changed(|record| record.object.push('x'));
        changed(|record| record.request_id.push('x'));
        changed(|record| record.outcome = AuditOutcome::Denied);
        changed(|record| record.count += 1);
        changed(|record| record.previous.push('0'));
        // A text cannot move from one field into the next.
        changed(|record| (record.object, record.request_id) = ("b\"\n\"r".into(), String::new()));
    }
}
