//! What the slots of a job that are bound to nodes wait for apart from these: groups and its quota.

use alloc::sync::Arc;

use api_types::JobId;

use crate::queue::group::Entry;
use crate::state::State;

/// A slot of the job waits for its node, and for a unit of each of its groups and for its quota.
pub(crate) fn enter(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    let (entry, rank) = (Entry::Job(id), job.plan.rank);
    if let Some((groups, _)) = &job.extras.groups {
        state.queue.groups.follow(entry, rank, groups);
    }
    if let Some(class) = job.class {
        let need = state.queue.class(class).demand.need;
        state.queue.quotas.follow(entry, rank, &job.plan.namespace, &need);
    }
}

/// Units of the groups or of the quota of the job were taken or returned, or more wait for some.
pub(crate) fn follow(state: &mut State, id: JobId) {
    let Some(job) = state.jobs.get(&id) else { return };
    for group in job.extras.groups() {
        state.marks.groups.push(*group);
    }
    if state.queue.quotas.limited().contains(&job.plan.namespace) {
        state.marks.quotas.push(Arc::clone(&job.plan.namespace));
    }
}
