//! The times that an orchestrator keeps to.

use std::time::Duration;

/// Short, so that many fit into one run.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// A node is reserved for a job that has waited for so long.
pub(crate) const STARVATION: Duration = Duration::from_secs(30);

/// A process speaks for the store for this long after a commit, and no other takes over sooner.
pub(crate) const TRUST: Duration = Duration::from_secs(1);
