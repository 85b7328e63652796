//! What inputs bring about, held back until it is on disk.

use std::collections::BTreeSet;

use api_types::ExecutionId;
use api_types::protocol::{Acknowledgement, Report};

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

/// What the ledger need not know at once. It goes with the next commit: one of its own would hold
/// up the execution it is about.
#[derive(Default)]
pub(super) struct Unwritten {
    /// They were told to run. After a crash they are told again, and preparing once more takes what
    /// was made already as it is.
    pub(super) executions: BTreeSet<ExecutionId>,
    /// A report that is sent once more after a crash harms nothing.
    pub(super) acknowledged: Vec<Acknowledgement>,
}

// === impl Turn ===

impl Turn {
    /// Whether there is to be a commit, besides what can wait for one.
    pub(super) fn is_written(&self) -> bool {
        !self.touched.is_empty() || !self.batch.is_empty()
    }

    pub(super) fn store(&mut self, position: u64, report: Report) {
        let json = serde_json::to_string(&report)
            .expect("a report is plain data with text keys, which always has a JSON form");
        self.batch.reports.push(StoredReport { position, report, json });
    }
}
