//! The order of jobs that wait, and the names of the queues in which they wait.

use core::cmp::Reverse;
use core::hash::Hash;

use api_types::{JobId, NodeId};
use uuid::Uuid;

use crate::time::Moment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PoolId(pub(crate) u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct ClassId(pub(crate) u32);

/// The position of a job among those of its namespace: by priority, then age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Rank {
    pub(crate) priority: Reverse<u32>,
    pub(crate) created: Moment,
    pub(crate) job: JobId,
}

/// Those who wait in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Waiter {
    /// The jobs of a class.
    Class(ClassId),
    /// The slots that may run on this node only.
    Pinned(NodeId),
}

// === impl Rank ===

impl Rank {
    /// Before all jobs of this priority.
    pub(crate) const fn first_of(priority: Reverse<u32>) -> Self {
        Self { priority, created: Moment::ZERO, job: JobId::from_uuid(Uuid::nil()) }
    }

    /// After all jobs of this priority.
    pub(crate) const fn last_of(priority: Reverse<u32>) -> Self {
        Self { priority, created: Moment(u64::MAX), job: JobId::from_uuid(Uuid::max()) }
    }
}
