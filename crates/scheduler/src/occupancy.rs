//! Whether a node is idle: it has no execution of a job that is no daemon.
//!
//! Daemons do not count, because they are on every node and end with it.

use api_types::job::JobType;

use crate::time::Moment;

/// What keeps a node from being idle, and what is stored of that.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    /// Executions of jobs that are no daemons.
    pub(crate) executions: u64,
    /// When the node became idle, as far as this process knows.
    pub(crate) idle_at: Moment,
    /// The stored row says that the node is idle.
    pub(crate) is_idle_stored: bool,
}

/// Whether an execution of such a job keeps a node from being idle.
pub(crate) const fn occupies(job_type: JobType) -> bool {
    match job_type {
        JobType::Batch | JobType::Ops | JobType::Service => true,
        JobType::Daemon => false,
    }
}
