//! Concurrency groups: which there are, which jobs are in them, and what limits they have.

use std::collections::{BTreeMap, BTreeSet};

use api_types::job::{JobSpec, OnConflict};
use control_plane::batch::{Content, NumberedCommit};
use control_plane::groups::{self, StoredGroup};
use control_plane::records::{Expected, Record, RecordKind, RecordWrite};

/// The group whose limit changes, one that is seldom full, and one whose newest job replaces others;
/// with the limits that they begin and end with.
pub(super) const GROUPS: [(&str, u32); 3] = [("alpha", 2), ("beta", 3), ("solo", 1)];

/// The group whose limit changes.
pub(super) const CHANGING: &str = GROUPS[0].0;

/// The delay before a retry, for long enough that a unit that stays taken is noticed.
const DELAY_SECONDS: u32 = 8;

const NAMESPACE: &str = "default";

/// The limits of all groups, as the last commits leave them.
#[derive(Default)]
pub(super) struct Limits {
    /// Those that held at some time since the last inspection.
    uninspected: BTreeMap<String, BTreeSet<u32>>,
    last: BTreeMap<String, u32>,
}

/// Puts the job into groups, which its priority decides: without another draw, the rest of a seed's
/// workload stays.
pub(super) fn join(spec: &mut JobSpec) {
    let names: &[&str] = match spec.priority % 8 {
        1 | 4 => &["alpha"],
        2 => &["alpha", "beta"],
        3 => &["beta"],
        6 => &["solo"],
        _ => return,
    };
    spec.concurrency_groups = names.iter().map(|name| (*name).to_owned()).collect();
    if names == ["solo"] {
        spec.on_conflict = OnConflict::Replace;
    }
    (spec.retry_policy.delay, spec.retry_policy.max_delay) = (DELAY_SECONDS, 2 * DELAY_SECONDS);
}

/// The change that gives the group this limit.
pub(super) fn write(name: &str, limit: u32) -> RecordWrite {
    let stored = StoredGroup { limit, ..StoredGroup::default() };
    RecordWrite::json(groups::key(NAMESPACE, name), Expected::Anything, &stored)
}

/// The record of a group that is there from the beginning.
pub(super) fn record(name: &str, limit: u32) -> Record {
    let RecordWrite { key, value, .. } = write(name, limit);
    Record { key, version: 0, value: value.expect("it has a value") }
}

// === impl Limits ===

impl Limits {
    /// As the store begins.
    pub(super) fn initial() -> Self {
        let last = GROUPS.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
        let mut limits = Self { last, ..Self::default() };
        limits.inspected();
        limits
    }

    /// What was stored so far was inspected.
    pub(super) fn inspected(&mut self) {
        let only = |(name, limit): (&String, &u32)| (name.clone(), BTreeSet::from([*limit]));
        self.uninspected = self.last.iter().map(only).collect();
    }

    /// Notes the limits of a commit, which may change one several times.
    pub(super) fn note(&mut self, commit: &NumberedCommit) {
        let Content::Batch(batch) = &commit.content else { return };
        for row in batch.records.iter().filter(|row| row.key.kind == RecordKind::Group) {
            let Some(value) = &row.value else { continue };
            let record =
                Record { key: row.key.clone(), version: row.version, value: value.clone() };
            let limit = StoredGroup::from_record(&record).limit;
            let (_, name) = groups::place(&row.key);
            self.last.insert(name.to_owned(), limit);
            self.uninspected.entry(name.to_owned()).or_default().insert(limit);
        }
    }

    /// The highest since the last inspection.
    pub(super) fn most(&self, name: &str) -> u32 {
        let limits = self.uninspected.get(name);
        limits.and_then(BTreeSet::last).copied().unwrap_or_default()
    }

    pub(super) fn last(&self, name: &str) -> u32 {
        self.last.get(name).copied().unwrap_or_default()
    }
}
