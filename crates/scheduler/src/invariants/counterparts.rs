//! No slot starts before its counterparts have completed, and none waits for what can no longer happen.

use alloc::vec::Vec;

use api_types::JobId;

use crate::counterparts::Finding;
use crate::scheduler::Scheduler;
use crate::state::counterparts;
use crate::state::job::LiveJob;

/// Panics when a slot was handed out before its counterparts completed, or waits although these are
/// decided and no tick is to say so.
pub(super) fn check(scheduler: &Scheduler) {
    let state = &scheduler.state;
    for (id, job) in state.jobs.iter().filter(|(_, job)| !job.is_terminal()) {
        let Some(slots) = job.counterparts() else { continue };
        assert_eq!(job.row().fresh, 0, "slots of job {id} are handed out in their order");
        let waiting: Vec<u32> =
            job.row().slots.iter().filter(|index| slots.waits(*index)).collect();
        assert_eq!(waiting.len(), slots.waiting() as usize, "slots of job {id} that wait");
        let runs = job.executions().iter().map(|execution| state.executions[execution].index);
        let tried = runs.chain(job.extras.pending().iter().map(|slot| slot.index));
        for index in tried {
            assert!(!slots.waits(index), "[{index}] of job {id} was placed while it waits");
            let is_free =
                waiting.is_empty() || counterparts::of_slot(state, job, index) == Finding::Ready;
            assert!(is_free, "[{index}] of job {id} was placed before its counterparts completed");
        }
        for index in waiting {
            let is_open = counterparts::of_slot(state, job, index) == Finding::Open;
            assert!(
                is_open || is_reviewed(scheduler, *id, job, index),
                "[{index}] of job {id} waits, and its counterparts are decided"
            );
        }
    }
}

fn is_reviewed(scheduler: &Scheduler, id: JobId, job: &LiveJob, index: u32) -> bool {
    let backlog = &scheduler.settle.backlog;
    let is_told = |told: Option<&Option<JobId>>| {
        told.is_some_and(|after| after.is_none_or(|after| after < id))
    };
    let conditions = job.extras.conditions.as_ref().expect("its slots wait for others");
    backlog.begins.contains(&id)
        || backlog.walks.get(&id).is_some_and(|next| *next <= index)
        || conditions.list.iter().any(|awaited| {
            is_told(backlog.named.get(&awaited.job))
                || is_told(backlog.counterparts.get(&(awaited.job, index)))
        })
}
