//! What one turn of the supervisor brings about, held back until it is on disk.

use std::collections::BTreeSet;

use api_types::ExecutionId;
use api_types::protocol::Report;
use tokio::sync::oneshot;

use crate::execution::Effect;
use crate::ledger::{Batch, StoredReport};

#[derive(Default)]
pub(super) struct Turn {
    pub(super) batch: Batch,
    /// Executions whose row is to be written as it is at the end of the turn.
    pub(super) touched: BTreeSet<ExecutionId>,
    pub(super) effects: Vec<(ExecutionId, Effect)>,
    pub(super) stops: bool,
    answers: Vec<Box<dyn FnOnce()>>,
}

// === impl Turn ===

impl Turn {
    pub(super) fn store(&mut self, position: u64, report: Report) {
        let json = serde_json::to_string(&report)
            .expect("a report is plain data with text keys, which always has a JSON form");
        self.batch.reports.push(StoredReport { position, report, json });
    }

    /// Answers at the end of the turn; who asked may have gone.
    pub(super) fn answer<T: 'static>(&mut self, to: oneshot::Sender<T>, answer: T) {
        self.answers.push(Box::new(move || drop(to.send(answer))));
    }

    pub(super) fn release(self) {
        for answer in self.answers {
            answer();
        }
    }
}
