//! Who has the units of a concurrency group, and who waits for one.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use api_types::JobId;

use crate::queue::group::Entry;
use crate::rank::Rank;
use crate::state::State;

/// Classes and jobs that are visited of a group: well below a millisecond.
const VISITED: usize = 1_000;

/// A concurrency group as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupUse {
    /// Live executions that have a unit.
    pub units: u32,
    /// Jobs that have units, and how many; at most as many as asked for.
    pub holders: Vec<(JobId, u32)>,
    /// Jobs that have units.
    pub holding: usize,
    /// The first of the jobs that wait for a unit, in the order in which they get one.
    pub waiters: Vec<JobId>,
    /// Jobs that wait for a unit; more than these if `more` is set.
    pub waiting: usize,
    pub more: bool,
}

/// How the group stands; `None` where the scheduler knows no such group.
pub(crate) fn group(state: &State, namespace: &str, name: &str, most: usize) -> Option<GroupUse> {
    let groups = &state.queue.groups;
    let group = groups.get(groups.find(namespace, name)?)?;
    let holders = group.holders();
    let mut found = GroupUse {
        units: group.units(),
        holders: holders.iter().take(most).map(|(job, units)| (*job, *units)).collect(),
        holding: holders.len(),
        ..GroupUse::default()
    };
    if !group.is_full() {
        return Some(found);
    }
    let mut first: BTreeSet<Rank> = BTreeSet::new();
    found.more = group.entries().len() > VISITED;
    for entry in group.entries().iter().take(VISITED) {
        match entry {
            Entry::Class(id) => {
                let Some(class) = state.queue.find_class(*id) else { continue };
                found.waiting += class.waiting.len();
                first.extend(class.waiting.iter().take(most));
            }
            Entry::Job(id) => {
                found.waiting += 1;
                first.extend(state.jobs.get(id).map(|job| job.plan.rank));
            }
        }
        while first.len() > most {
            first.pop_last();
        }
    }
    found.waiters = first.into_iter().map(|rank| rank.job).collect();
    Some(found)
}
