//! Input and output of the ledger; the agent keeps it in a file, the simulator in memory.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::engine::EngineType;
use api_types::protocol::{Acknowledgement, Report, Work};
use api_types::{ExecutionId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::execution::Execution;

/// The whole content of the ledger.
#[derive(Debug, Default, Clone)]
pub struct Contents {
    pub executions: Vec<Execution>,
    /// Unacknowledged reports, in the order in which they were made.
    pub reports: Vec<StoredReport>,
    pub ends: Ends,
}

#[derive(Debug, Clone, PartialEq)]
pub struct StoredReport {
    /// Counts all reports of this node.
    pub position: u64,
    pub report: Report,
    /// The report as it is stored; its size approximates its share of a batch.
    pub json: String,
}

/// How the agents on this ledger ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ends {
    /// An agent runs, or has ended without a stop.
    pub is_open: bool,
    /// When agents started whose predecessor had ended without a stop.
    pub unstopped: Vec<Timestamp>,
    /// The execution whose steps run, while all others wait.
    pub alone: Option<ExecutionId>,
}

/// The changes of one commit.
#[derive(Debug, Default)]
pub struct Batch {
    /// New executions; each is among `changed` too.
    pub admitted: Vec<(ExecutionId, Arc<Work>)>,
    /// Phase and counters at the time of the commit.
    pub changed: BTreeMap<ExecutionId, Execution>,
    pub reports: Vec<StoredReport>,
    pub acknowledged: Vec<Acknowledgement>,
    pub forgotten: Vec<ExecutionId>,
    pub ends: Option<Ends>,
}

// === impl Contents ===

impl Contents {
    /// The engines of executions that are not done.
    pub fn engines(&self) -> BTreeSet<EngineType> {
        let executions = self.executions.iter().filter(|execution| !execution.phase.is_done());
        executions.map(|execution| execution.work.task.engine.engine_type).collect()
    }

    /// The content after the batch is applied to this content.
    pub fn apply(&mut self, batch: &Batch) {
        for execution in batch.changed.values() {
            match self.executions.iter_mut().find(|known| known.id == execution.id) {
                Some(known) => known.clone_from(execution),
                None => self.executions.push(execution.clone()),
            }
        }
        self.executions.retain(|execution| !batch.forgotten.contains(&execution.id));
        let acknowledged = |report: &Report| {
            batch.acknowledged.iter().any(|acknowledgement| {
                acknowledgement.execution_id == report.execution_id
                    && acknowledgement.sequence == report.sequence
            })
        };
        self.reports.retain(|stored| !acknowledged(&stored.report));
        self.reports.extend(batch.reports.iter().cloned());
        if let Some(ends) = &batch.ends {
            self.ends.clone_from(ends);
        }
    }
}

// === impl Batch ===

impl Batch {
    pub fn is_empty(&self) -> bool {
        self.admitted.is_empty()
            && self.changed.is_empty()
            && self.reports.is_empty()
            && self.acknowledged.is_empty()
            && self.forgotten.is_empty()
            && self.ends.is_none()
    }
}
