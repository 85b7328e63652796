//! One execution in the core's table.

use alloc::sync::Arc;

use api_types::{ExecutionId, Timestamp};

use crate::execution::Execution;

pub(super) struct Slot {
    pub(super) execution: Execution,
    /// Reports that the orchestrator has not acknowledged.
    pub(super) unacknowledged: u32,
    /// Time of the latest one; zero when it was before this agent started.
    pub(super) acknowledged_at: Timestamp,
}

// === impl Slot ===

impl Slot {
    pub(super) fn new(execution: Execution) -> Self {
        Self { execution, unacknowledged: 0, acknowledged_at: Timestamp::ZERO }
    }

    /// Its key among the finished executions, if it is finished; then it keeps no specification.
    pub(super) fn finish(&mut self) -> Option<(Timestamp, ExecutionId)> {
        if !self.execution.phase.is_done() || self.unacknowledged > 0 {
            return None;
        }
        self.execution.work = Arc::new(self.execution.work.outline());
        Some(self.finished_key())
    }

    pub(super) fn finished_key(&self) -> (Timestamp, ExecutionId) {
        let remains = self.execution.phase.remains();
        let finished_at = remains.map_or(Timestamp::ZERO, |remains| remains.finished_at);
        (finished_at, self.execution.id)
    }
}
