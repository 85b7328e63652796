//! What the slots of a job that are bound to nodes wait for apart from these: groups and its quota.

use alloc::sync::Arc;

use api_types::JobId;

use crate::queue::group::Entry;
use crate::state::State;

// === impl State: groups and quotas of a job ===

impl State {
    /// A slot of the job waits for its node, and for a unit of each of its groups and for its quota.
    pub(crate) fn enter_holders(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        let (entry, rank) = (Entry::Job(id), job.plan.rank);
        if let Some((groups, _)) = &job.extras.groups {
            self.queue.groups.follow(entry, rank, groups);
        }
        if let Some(class) = job.class {
            let need = self.queue.class(class).demand.need;
            self.queue.quotas.follow(entry, rank, &job.plan.namespace, &need);
        }
    }

    /// Units of the groups or of the quota of the job were taken or returned, or more wait for some.
    pub(crate) fn follow_holders(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        for group in job.extras.groups() {
            self.marks.groups.push(*group);
        }
        if self.queue.quotas.limited().contains(&job.plan.namespace) {
            self.marks.quotas.push(Arc::clone(&job.plan.namespace));
        }
    }
}
