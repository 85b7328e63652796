//! The times that an orchestrator keeps to.

use std::time::Duration;

/// Short, so that many fit into one run.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// A node is reserved for a job that has waited for so long.
pub(crate) const STARVATION: Duration = Duration::from_secs(30);
