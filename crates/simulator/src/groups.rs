//! Concurrency groups: none has more live executions than its limit allows, and no job says that it
//! waits for one that has a unit.

use std::collections::{BTreeMap, BTreeSet};

use api_types::JobId;
use api_types::job::{JobSpec, JobStateType, OnConflict};
use control_plane::batch::{Content, NumberedCommit};
use control_plane::groups::{self, StoredGroup};
use control_plane::records::{Expected, Record, RecordKind, RecordWrite};
use control_plane::store::memory::MemoryStore;

use crate::orchestrator::Disk;
use crate::workload::DECLINED;

/// The group whose limit changes, one that is seldom full, and one whose newest job replaces others;
/// with the limits that they begin and end with.
pub(super) const GROUPS: [(&str, u32); 3] = [("alpha", 2), ("beta", 3), ("solo", 1)];

/// The group whose limit changes.
pub(super) const CHANGING: &str = GROUPS[0].0;

/// A unit may be idle in this many counts, one per second: later turns finish what one leaves.
const COUNTS: u32 = 3;

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

/// In how many counts in a row a group had a unit for which a job said it waits.
#[derive(Default)]
pub(super) struct IdleUnits(BTreeMap<String, u32>);

/// Puts the job into groups, which its priority decides: without another draw, the rest of a seed's
/// workload stays.
pub(super) fn join(spec: &mut JobSpec) {
    if spec.name == DECLINED {
        // Its slots wait for a thousand seconds each, and would do so one after the other.
        return;
    }
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

/// Slots of jobs in the group that wait for the end of a delay.
pub(super) fn delayed(disk: &Disk, name: &str) -> u32 {
    let slots = disk.store.pending_slots.values().filter(|slot| slot.due.is_some());
    let of_group = slots.filter(|slot| names(disk, slot.job, name));
    u32::try_from(of_group.count()).unwrap_or(u32::MAX)
}

fn names(disk: &Disk, job: JobId, name: &str) -> bool {
    disk.specs.get(&job).is_some_and(|spec| spec.concurrency_groups.iter().any(|it| it == name))
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

    pub(super) fn last(&self, name: &str) -> u32 {
        self.last.get(name).copied().unwrap_or_default()
    }
}

/// Panics if the execution that the job was just given is one too many for a group.
/// `live` are the slots that have one.
pub(super) fn check_limits(
    disk: &Disk,
    job: JobId,
    live: &BTreeMap<(JobId, u32), api_types::ExecutionId>,
) {
    for name in &disk.specs[&job].concurrency_groups {
        let units = live.keys().filter(|(job, _)| names(disk, *job, name)).count();
        let most = disk.limits.uninspected.get(name).and_then(BTreeSet::last).copied();
        assert!(
            units <= most.unwrap_or_default() as usize,
            "{units} executions of the group '{name}' are live, which allows {most:?}"
        );
    }
}

// === impl IdleUnits ===

impl IdleUnits {
    /// The orchestrator was held up: it could not do anything about it.
    pub(super) fn begin_anew(&mut self) {
        self.0.clear();
    }

    /// Panics if a group has had a unit for too long for which a job says that it waits.
    pub(super) fn count(&mut self, disk: &Disk) {
        for (name, _) in GROUPS {
            let is_idle = units(disk, name) < disk.limits.last(name);
            match is_idle.then(|| waiting(&disk.store, disk, name)).flatten() {
                None => drop(self.0.remove(name)),
                Some(job) => {
                    let times = self.0.entry(name.to_owned()).or_default();
                    *times += 1;
                    let units = units(disk, name);
                    assert!(
                        *times <= COUNTS,
                        "job {job} waits for the group '{name}', of which {units} units are taken"
                    );
                }
            }
        }
    }
}

/// Live executions of jobs in the group.
fn units(disk: &Disk, name: &str) -> u32 {
    let rows = disk.store.executions.values().filter(|row| !row.compute.is_terminal());
    u32::try_from(rows.filter(|row| names(disk, row.job, name)).count()).unwrap_or(u32::MAX)
}

/// A job of this group alone that says it waits for it.
fn waiting(store: &MemoryStore, disk: &Disk, name: &str) -> Option<JobId> {
    let says = format!("the concurrency group '{name}'");
    let mut jobs = store.jobs.values().filter(|row| row.live && row.state == JobStateType::Queued);
    let is_of_it =
        |job: &JobId| disk.specs.get(job).is_some_and(|spec| spec.concurrency_groups == [name]);
    jobs.find(|row| is_of_it(&row.id) && row.message.starts_with(&says)).map(|row| row.id)
}
