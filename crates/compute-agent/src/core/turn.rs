//! What inputs bring about, held back until it is on disk.

use std::collections::BTreeSet;

use api_types::ExecutionId;
use api_types::protocol::Report;

use super::{Batch, StoredReport};
use crate::execution::Effect;

#[derive(Default)]
pub struct Turn {
    /// What is to be written; whole after [`Core::close`](super::Core::close).
    pub batch: Batch,
    /// What is to be done once it is written, in order.
    pub effects: Vec<(ExecutionId, Effect)>,
    /// Executions whose row is to be written as it is at the end of the turn.
    pub(super) touched: BTreeSet<ExecutionId>,
}

// === impl Turn ===

impl Turn {
    pub(super) fn store(&mut self, position: u64, report: Report) {
        let json = serde_json::to_string(&report)
            .expect("a report is plain data with text keys, which always has a JSON form");
        self.batch.reports.push(StoredReport { position, report, json });
    }
}
