//! The audit log as two chains: each record has the hash of the one before it.
//!
//! A chain loses only its oldest records. *Changes* are few, so that they last a year; *the rest*
//! may come by the thousand, and pushes out only what is like it.
//!
//! A record that was changed or removed breaks the chain where it was. An attacker who can write to
//! the database can rebuild the whole chain; the same records in the service's log, and a hash that
//! was noted elsewhere, reveal that.

use std::time::Duration;

use api_types::Timestamp;
use api_types::audit::{AuditChain, AuditOutcome, AuditRecord};
use sha2::{Digest, Sha256};

/// Records of a chain that are kept, the newest: half a gigabyte. Each new one beyond removes the
/// oldest.
pub const AUDIT_RECORDS: u64 = 1_000_000;

/// How long a record of a change is kept.
pub const CHANGES_KEPT: Duration = Duration::from_secs(365 * 86_400);

/// Operations whose records belong to the rest. Every other one changes who may do what.
const REST: [&str; 10] = [
    "createJob",
    "createJobByPost",
    "stopJob",
    "triggerSchedule",
    "signIn",
    "signOut",
    "exchangeIdToken",
    "finishSignIn",
    "readSecrets",
    "readCredentials",
];

/// Of these, those that can come by the thousand: repeats of a caller are one record a minute.
const REPEATED: [&str; 7] = [
    "signIn",
    "signOut",
    "exchangeIdToken",
    "finishSignIn",
    "readSecrets",
    "readCredentials",
    // Of a node that has joined before; others are changes.
    "enrolNode",
];

/// Submissions that one record stands for at most, so that its object stays short enough to read.
const MERGED: u64 = 32;

/// Entries of a commit among which a submission looks for one of its caller.
const LOOKED_AT: usize = 16;

/// What a request adds to the log if it is carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    pub chain: AuditChain,
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

/// Where both chains end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chains {
    pub changes: Chain,
    pub rest: Chain,
}

/// Where a chain ends.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain {
    /// 0 for an empty one.
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

    pub(crate) fn seal(self, chains: &mut Chains) -> Vec<AuditRecord> {
        self.0.into_iter().map(|entry| chains.seal(entry)).collect()
    }
}

// === impl AuditEntry ===

impl AuditEntry {
    /// The chain of an operation that was carried out; of one that was denied it is the rest.
    pub fn chain_of(operation: &str, outcome: AuditOutcome) -> AuditChain {
        match outcome {
            AuditOutcome::Done if !REST.contains(&operation) => AuditChain::Changes,
            AuditOutcome::Done | AuditOutcome::Denied => AuditChain::Rest,
        }
    }

    /// Whether repeats of it share a record.
    pub fn is_folded(&self) -> bool {
        let is_repeated = REPEATED.contains(&self.operation);
        self.chain == AuditChain::Rest && (self.outcome == AuditOutcome::Denied || is_repeated)
    }

    /// Whether they differ in time, object and request alone.
    fn is_alike(&self, other: &Self) -> bool {
        self.operation == other.operation
            && self.token_id == other.token_id
            && self.user == other.user
            && self.address == other.address
            && self.outcome == other.outcome
    }
}

// === impl Chains ===

impl Chains {
    /// Appends a record to its chain.
    pub(crate) fn seal(&mut self, entry: AuditEntry) -> AuditRecord {
        match entry.chain {
            AuditChain::Changes => self.changes.seal(entry),
            AuditChain::Rest => self.rest.seal(entry),
        }
    }
}

// === impl Chain ===

impl Chain {
    fn seal(&mut self, entry: AuditEntry) -> AuditRecord {
        let AuditEntry {
            chain,
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
            chain,
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
            chain: AuditChain::Changes,
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
            chain: AuditChain::Rest,
            user: user.to_owned(),
            operation: "createJob",
            ..entry(object)
        };
        let mut entries = Entries::default();
        entries.submitted(of("a", "j-1"));
        entries.submitted(of("b", "j-2"));
        entries.push(entry("j-1"));
        entries.submitted(of("a", "j-3"));
        let mut chains = Chains::default();
        let records = entries.seal(&mut chains);
        let summary = |record: &AuditRecord| (record.object.clone(), record.count);
        assert_eq!(
            records.iter().map(summary).collect::<Vec<_>>(),
            [("j-1 j-3".to_owned(), 2), ("j-2".to_owned(), 1), ("j-1".to_owned(), 1)]
        );
        assert_eq!((chains.changes.sequence, chains.rest.sequence), (1, 2));

        let mut entries = Entries::default();
        (0..10_000).for_each(|_| entries.submitted(of("a", "j")));
        let records = entries.seal(&mut chains);
        assert_eq!(records.iter().map(|record| record.count).sum::<u64>(), 10_000);
        assert_eq!(records.len() as u64, 10_000_u64.div_ceil(MERGED));
        assert!(records.iter().all(|record| hash(record) == record.hash));
    }

    #[test]
    fn what_changes_nothing_of_consequence_is_in_the_chain_of_the_rest() {
        let of = AuditEntry::chain_of;
        for operation in ["createToken", "putSecret", "enrolNode", "an operation of tomorrow"] {
            assert_eq!(of(operation, AuditOutcome::Done), AuditChain::Changes, "{operation}");
            assert_eq!(of(operation, AuditOutcome::Denied), AuditChain::Rest, "{operation}");
        }
        for operation in REST {
            assert_eq!(of(operation, AuditOutcome::Done), AuditChain::Rest, "{operation}");
        }
        let of_rest = |operation| AuditEntry { chain: AuditChain::Rest, operation, ..entry("") };
        assert!(of_rest("signIn").is_folded() && !of_rest("createJob").is_folded());
        assert!(!AuditEntry { operation: "signIn", ..entry("") }.is_folded());
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
        changed(|record| record.chain = AuditChain::Rest);
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
