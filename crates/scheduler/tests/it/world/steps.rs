//! The states that executions and jobs went through, as their history says.

use api_types::history::EventType;
use api_types::job::JobStateType;
use api_types::{ExecutionId, JobId};
use scheduler::change::EventSubject;

use super::World;

impl World {
    /// (previous, new, revision) of each event of the execution.
    pub(crate) fn steps(&self, execution: ExecutionId) -> Vec<(u8, u8, u64)> {
        self.store
            .events
            .iter()
            .filter_map(|event| match event.subject {
                EventSubject::Execution { id, previous, new, .. } if id == execution => {
                    Some((previous.into(), new.into(), event.revision))
                }
                EventSubject::Execution { .. }
                | EventSubject::Job { .. }
                | EventSubject::Node { .. } => None,
            })
            .collect()
    }

    pub(crate) fn job_steps(&self, job: JobId) -> Vec<JobStateType> {
        self.store
            .history(job, EventType::JobLevel)
            .into_iter()
            .filter_map(|event| match event.subject {
                EventSubject::Job { new, .. } => Some(new),
                EventSubject::Execution { .. } | EventSubject::Node { .. } => None,
            })
            .collect()
    }
}
