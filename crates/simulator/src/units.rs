//! Units of concurrency groups: none has more live executions than its limit allows, and no job says
//! that it waits for one that has a unit.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::job::{JobSpec, JobStateType};
use api_types::{ExecutionId, JobId};
use control_plane::store::memory::MemoryStore;

use crate::groups::GROUPS;
use crate::orchestrator::Disk;
use crate::quotas;

/// A unit may be idle in this many counts, one per second: later turns finish what one leaves.
const COUNTS: u32 = 3;

/// In how many counts in a row a group had a unit for which a job said it waits.
#[derive(Default)]
pub(super) struct IdleUnits(BTreeMap<String, u32>);

/// Slots of jobs in the group that wait for the end of a delay.
pub(super) fn delayed(disk: &Disk, name: &str) -> u32 {
    let slots = disk.store.pending_slots.values().filter(|slot| slot.due.is_some());
    let of_group = slots.filter(|slot| names(disk, slot.job, name));
    u32::try_from(of_group.count()).unwrap_or(u32::MAX)
}

fn names(disk: &Disk, job: JobId, name: &str) -> bool {
    disk.specs.get(&job).is_some_and(|spec| spec.concurrency_groups.iter().any(|it| it == name))
}

/// Panics if the execution that the job was just given is one too many for a group.
/// `live` are the slots that have one.
pub(super) fn check_limits(disk: &Disk, job: JobId, live: &BTreeMap<(JobId, u32), ExecutionId>) {
    for name in &disk.specs[&job].concurrency_groups {
        let units = live.keys().filter(|(job, _)| names(disk, *job, name)).count();
        let most = disk.limits.most(name);
        assert!(
            units <= most as usize,
            "{units} executions of the group '{name}' are live, which allows {most}"
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

/// A job of this group alone that says it waits for it, and that no quota holds.
fn waiting(store: &MemoryStore, disk: &Disk, name: &str) -> Option<JobId> {
    let says = format!("the concurrency group '{name}'");
    let mut jobs = store.jobs.values().filter(|row| row.live && row.state == JobStateType::Queued);
    let used = quotas::used(store);
    let is_of_it = |job: &JobId| {
        let is_of_it = |spec: &Arc<JobSpec>| {
            spec.concurrency_groups == [name] && disk.quotas.has_room_for(spec, used)
        };
        disk.specs.get(job).is_some_and(is_of_it)
    };
    jobs.find(|row| is_of_it(&row.id) && row.message.starts_with(&says)).map(|row| row.id)
}
