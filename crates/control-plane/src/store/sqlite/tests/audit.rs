//! The two chains of the audit log, and the one of an older release.

use std::time::Duration;

use api_types::Timestamp;
use api_types::audit::{AuditChain, AuditOutcome, AuditRecord};
use rusqlite::{Connection, params};
use scheduler::change::Changes;
use scheduler::time::Moment;

use super::migration::old_file;
use super::{Backend, directory};
use crate::audit::{AuditEntry, CHANGES_KEPT, Chains, hash};
use crate::store::contract::Put;
use crate::store::{AuditQuery, Reads, Store, Write};

/// The format of the last release with one chain.
const WITH_ONE_CHAIN: u32 = 15;

const NOW: Timestamp = Timestamp(1_760_000_000_000_000_000);

fn entry(chain: AuditChain, time: Timestamp, object: &str) -> AuditEntry {
    AuditEntry {
        chain,
        time,
        user: "it".to_owned(),
        token_id: "t".to_owned(),
        address: "::1".to_owned(),
        operation: "putSecret",
        object: object.to_owned(),
        request_id: "r".to_owned(),
        outcome: AuditOutcome::Done,
        count: 1,
    }
}

fn write(store: &mut dyn Store, audit: &[AuditRecord]) {
    let changes = Changes::default();
    let batch = Write::Batch { changes: &changes, keys: &[], records: &[], audit, loads: &[] };
    store.next(Moment(u64::MAX >> 1), batch).unwrap();
}

fn all(reads: &dyn Reads, chain: AuditChain) -> Vec<AuditRecord> {
    let query = AuditQuery {
        chain,
        since: Timestamp::ZERO,
        user: None,
        operation: None,
        reverse: false,
        after: None,
        limit: 1000,
    };
    reads.audit(&query).unwrap().items
}

fn assert_intact(records: &[AuditRecord]) {
    for (before, record) in records.iter().zip(&records[1..]) {
        assert_eq!((&record.previous, record.sequence), (&before.hash, before.sequence + 1));
    }
    assert!(records.iter().all(|record| hash(record) == record.hash));
}

#[test]
fn the_log_of_an_older_release_is_the_beginning_of_the_chain_of_changes() {
    let directory = old_file(WITH_ONE_CHAIN);
    let connection = Connection::open(directory.path().join("orchestrator.db")).unwrap();
    let mut chains = Chains::default();
    for number in 0..3 {
        let record = chains.seal(entry(AuditChain::Changes, NOW, &number.to_string()));
        let mut text = serde_json::to_value(&record).unwrap();
        text.as_object_mut().unwrap().remove("Chain").expect("a field that is new");
        connection
            .execute(
                "INSERT INTO audit (sequence, time, user, operation, hash, record)
                 VALUES (?1, ?2, 'it', 'putSecret', ?3, ?4)",
                params![record.sequence.cast_signed(), NOW.0, record.hash, text.to_string()],
            )
            .unwrap();
    }
    drop(connection);
    let (mut store, reads) = directory.open();
    let mut found = store.audit_chains().unwrap();
    assert_eq!(found, chains);
    let later = [AuditChain::Rest, AuditChain::Changes, AuditChain::Rest]
        .map(|chain| found.seal(entry(chain, NOW, "later")));
    write(store.as_mut(), &later);
    let (changes, rest) =
        (all(reads.as_ref(), AuditChain::Changes), all(reads.as_ref(), AuditChain::Rest));
    assert_eq!((changes.len(), rest.len()), (4, 2));
    assert_intact(&changes);
    assert_intact(&rest);
    assert_eq!(store.audit_chains().unwrap(), found);
}

#[test]
fn the_rest_pushes_out_no_change_and_changes_go_after_a_year() {
    let directory = directory();
    let (mut store, reads) = directory.open();
    let mut chains = Chains::default();
    let year_ago = NOW - CHANGES_KEPT;
    // The clock was set back once: only the oldest go, so that no gap comes about.
    let ages = [-20, -10, 5, -5, 30].map(|seconds: i64| {
        let age = Duration::from_secs(seconds.unsigned_abs());
        if seconds < 0 { year_ago - age } else { year_ago + age }
    });
    let old = ages.map(|time| chains.seal(entry(AuditChain::Changes, time, "old")));
    write(store.as_mut(), &old);
    let rest: Vec<_> =
        (0..500).map(|_| chains.seal(entry(AuditChain::Rest, NOW, "flood"))).collect();
    write(store.as_mut(), &rest);
    assert_eq!(all(reads.as_ref(), AuditChain::Changes).len(), 5, "a flood removes none");
    let new = chains.seal(entry(AuditChain::Changes, NOW, "new"));
    write(store.as_mut(), &[new]);
    let changes = all(reads.as_ref(), AuditChain::Changes);
    assert_eq!(changes.iter().map(|it| it.sequence).collect::<Vec<_>>(), [3, 4, 5, 6]);
    assert_intact(&changes);
    assert_eq!(all(reads.as_ref(), AuditChain::Rest).len(), 500, "these have no age");
    assert_eq!(store.audit_chains().unwrap(), chains);
}
