//! The results of a batch of inputs, held back until they are durable.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use api_types::ExecutionId;
use api_types::protocol::{Acknowledgement, Report};

use crate::execution::Effect;
use crate::ledger::{Batch, StoredReport};

#[derive(Default)]
pub struct Transaction {
    /// Changes to write; complete after [`NodeState::close`](super::NodeState::close).
    pub batch: Batch,
    /// Effects to run after the commit, in order.
    pub effects: Vec<(ExecutionId, Effect)>,
    /// Executions whose row is written as it is at the end of the transaction.
    pub(super) touched: BTreeSet<ExecutionId>,
}

/// Changes that the ledger may learn late. They go with the next commit: a commit of their own
/// would delay the execution they are about.
#[derive(Default)]
pub(super) struct Unwritten {
    /// Orders to run. After a crash the orchestrator repeats them, and preparation reuses what
    /// exists already.
    pub(super) executions: BTreeSet<ExecutionId>,
    /// Acknowledgements. A report that is sent again after a crash does no harm.
    pub(super) acknowledged: Vec<Acknowledgement>,
}

// === impl Transaction ===

impl Transaction {
    /// Whether the transaction needs a commit, apart from deferrable changes.
    pub(super) fn is_written(&self) -> bool {
        !self.touched.is_empty() || !self.batch.is_empty()
    }

    pub(super) fn store(&mut self, position: u64, report: Report) {
        let json = serde_json::to_string(&report)
            .expect("a report is plain data with text keys, which always has a JSON form");
        self.batch.reports.push(StoredReport { position, report, json });
    }
}
