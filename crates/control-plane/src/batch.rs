//! What one commit makes durable, kept unchanged until its outcome is known.

use std::sync::Arc;

use api_types::audit::AuditRecord;
use api_types::schedule::RunOutcome;
use scheduler::Output;
use scheduler::change::{EventRow, EventSubject};

use crate::clock::Stamp;
use crate::records::RecordRow;
use crate::store::{
    Commit, CommitId, EXECUTION_ROWS, IdempotencyRow, JOB_ROWS, LoadRow, Outcome, Removal, Store,
    StoreError, Write,
};

/// The changes of some inputs, the idempotency keys first seen with them, and the facts that
/// metrics and traces are made of.
#[derive(Debug, Default)]
pub struct Batch {
    pub output: Output,
    pub keys: Vec<IdempotencyRow>,
    pub records: Vec<RecordRow>,
    pub audit: Vec<AuditRecord>,
    pub loads: Vec<LoadRow>,
    /// What became of due times, for the metrics.
    pub runs: Vec<RunOutcome>,
    /// The number of inputs.
    pub inputs: usize,
}

#[derive(Debug, Clone)]
pub enum Content {
    Batch(Arc<Batch>),
    Removal(Removal),
    Probe,
}

/// A numbered commit. A repeat is a clone: the same number never means something else.
#[derive(Debug, Clone)]
pub struct NumberedCommit {
    pub id: CommitId,
    pub stamp: Stamp,
    pub content: Content,
}

// === impl Batch ===

impl Batch {
    /// Whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.output.changes.is_empty()
            && self.keys.is_empty()
            && self.records.is_empty()
            && self.audit.is_empty()
            && self.loads.is_empty()
    }

    /// What the stored jobs, executions and events cost to remove one day, in the rows of
    /// [`Removal::Jobs`].
    pub fn job_rows(&self) -> usize {
        let changes = &self.output.changes;
        let cost = |event: &EventRow| match event.subject {
            EventSubject::Execution { .. } if event.revision == 1 => 1 + EXECUTION_ROWS as usize,
            EventSubject::Execution { .. } | EventSubject::Job { .. } => 1,
            EventSubject::Node { .. } => 0,
        };
        let events: usize = changes.events.iter().map(cost).sum();
        changes.new_jobs.len() * JOB_ROWS as usize + events
    }
}

// === impl NumberedCommit ===

impl NumberedCommit {
    pub fn write_to(&self, store: &mut dyn Store) -> Result<Outcome, StoreError> {
        let write = match &self.content {
            Content::Batch(batch) => {
                let Batch { output, keys, records, audit, loads, runs: _, inputs: _ } =
                    batch.as_ref();
                Write::Batch { changes: &output.changes, keys, records, audit, loads }
            }
            Content::Removal(removal) => Write::Removal(*removal),
            Content::Probe => Write::Probe,
        };
        store.commit(&Commit { id: self.id, stamp: self.stamp, write })
    }
}
