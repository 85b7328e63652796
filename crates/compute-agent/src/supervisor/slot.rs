//! One execution in the supervisor's table.

use api_types::{ExecutionId, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::execution::{Execution, Phase};

pub(super) struct Slot {
    pub(super) execution: Execution,
    /// Reports that the orchestrator has not acknowledged.
    pub(super) unacknowledged: u32,
    /// Ends the fetching that is under way, if any.
    pub(super) cancel: CancellationToken,
}

// === impl Slot ===

impl Slot {
    pub(super) fn new(execution: Execution) -> Self {
        Self { execution, unacknowledged: 0, cancel: CancellationToken::new() }
    }

    /// Its place among the finished, if it has one.
    pub(super) fn finished(&self) -> Option<(Timestamp, ExecutionId)> {
        (self.execution.phase.is_done() && self.unacknowledged == 0).then(|| self.finished_key())
    }

    pub(super) fn finished_key(&self) -> (Timestamp, ExecutionId) {
        let finished_at = match self.execution.phase {
            Phase::Done { finished_at, .. } => finished_at,
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting
            | Phase::Overtaken { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. } => Timestamp::ZERO,
        };
        (finished_at, self.execution.id)
    }
}
