//! Invariants of concurrency groups.

use alloc::collections::BTreeMap;

use crate::queue::group::Entry;
use crate::scheduler::Scheduler;

/// Panics when units are miscounted, when one is idle while an entry that could use it is held, or
/// when an entry of a full group is not held.
pub(super) fn check(scheduler: &Scheduler) {
    let Scheduler { state, settle } = scheduler;
    let mut counted = BTreeMap::new();
    for (id, job) in state.jobs.iter() {
        let live = u32::try_from(job.executions().len()).unwrap_or(u32::MAX);
        for group in job.extras.groups() {
            let holders: &mut BTreeMap<_, _> = counted.entry(*group).or_default();
            if live > 0 {
                holders.insert(*id, live);
            }
        }
    }
    for (id, group) in state.queue.groups.iter() {
        let holders = counted.remove(&id).unwrap_or_default();
        let name = state.queue.groups.name(id);
        assert_eq!(*group.holders(), holders, "units of the group '{name}'");
        assert_eq!(group.units(), holders.values().sum::<u32>(), "units of the group '{name}'");
        let is_postponed = settle.backlog.groups.contains(&id);
        let (held, open) = (group.first_held(), group.first_open());
        let is_settled = !group.has_to_change() || is_postponed;
        assert!(is_settled, "the group '{name}' is to open {held:?} or to hold {open:?}");
        let continues = settle.backlog.replacements.contains_key(&id);
        assert_eq!(group.is_replacing(), continues, "jobs of the group '{name}' are replaced");
    }
    assert!(counted.is_empty(), "jobs name groups that are not known: {counted:?}");
    for (id, class) in state.queue.classes().filter(|(_, class)| !class.groups.is_empty()) {
        let known = state.queue.groups.groups_of(Entry::Class(*id)).is_some();
        assert_eq!(known, !class.waiting.is_empty(), "class {id:?} waits for its groups");
    }
}
