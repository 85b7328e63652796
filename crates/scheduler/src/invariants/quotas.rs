//! Invariants of quotas.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::queue::group::Entry;
use crate::queue::quota::QuotaUse;
use crate::scheduler::Scheduler;

/// Panics when what a namespace holds or queues is miscounted, when an entry is held that fits into
/// what is left of the quota, or open although it does not fit.
pub(super) fn check(scheduler: &Scheduler) {
    let Scheduler { state, settle } = scheduler;
    let quotas = &state.queue.quotas;
    let mut counted: BTreeMap<Arc<str>, QuotaUse> = BTreeMap::new();
    for job in state.jobs.values() {
        let used = counted.entry(Arc::clone(&job.plan.namespace)).or_default();
        used.queued += job.queued_slots();
        for id in job.executions() {
            used.held = used.held.plus(&state.executions[id].held());
            used.executions += 1;
        }
    }
    for (namespace, used) in quotas.uses() {
        let expected = counted.remove(namespace).unwrap_or_default();
        assert_eq!(*used, expected, "what namespace '{namespace}' holds");
        let change = quotas.next_change(namespace);
        let is_postponed = settle.backlog.quotas.contains(namespace);
        assert!(change.is_none() || is_postponed, "namespace '{namespace}' is to {change:?}");
    }
    counted.retain(|_, used| *used != QuotaUse::default());
    assert!(counted.is_empty(), "the use of namespaces is lost: {counted:?}");
    let mut classes = 0;
    for (entry, namespace, rank) in quotas.entries() {
        let Entry::Class(id) = entry else { continue };
        classes += 1;
        let class = state.queue.class(id);
        assert_eq!(class.waiting.first(), Some(&rank), "the first job of class {id:?}");
        assert_eq!(class.namespace, *namespace, "the namespace of class {id:?}");
    }
    let waiting = state.queue.waiting_classes().count();
    assert_eq!(classes, waiting, "classes in which jobs wait are not known to quotas");
    for job in state.jobs.values().filter(|job| job.extras.pending().has_pinned()) {
        let is_known = quotas.entries().any(|(entry, ..)| entry == Entry::Job(job.row().id));
        assert!(is_known, "job {} waits for its nodes and has no entry", job.row().id);
    }
}
