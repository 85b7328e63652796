//! Unacknowledged reports, in the order in which they were made.
//!
//! The number of executions bounds it: an execution makes at most four reports, and one a minute
//! during a long fetch; while the orchestrator is unreachable no new executions arrive.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_core::StoredReport;
use api_types::ExecutionId;
use api_types::protocol::{Acknowledgement, MAX_REPORTS_PER_BATCH, Report};
use tokio::sync::Notify;

/// The byte limit of a batch; the orchestrator refuses bodies above 10 MB.
const MAX_BATCH_BYTES: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// By position.
    waiting: Mutex<BTreeMap<u64, StoredReport>>,
    pushed: Notify,
}

// === impl Outbox ===

impl Outbox {
    pub(crate) fn push(&self, reports: Vec<StoredReport>) {
        if reports.is_empty() {
            return;
        }
        self.waiting().extend(reports.into_iter().map(|report| (report.position, report)));
        self.pushed.notify_one();
    }

    /// Waits for the next batch, which stays here until it is acknowledged. For a single reader.
    pub(crate) async fn next_batch(&self) -> Vec<Report> {
        loop {
            let batch = self.batch();
            if !batch.is_empty() {
                return batch;
            }
            self.pushed.notified().await;
        }
    }

    fn batch(&self) -> Vec<Report> {
        let mut bytes = 0;
        self.waiting()
            .values()
            .take(MAX_REPORTS_PER_BATCH)
            .take_while(|stored| {
                // The first report always fits: it cannot be made smaller.
                let fits = bytes == 0 || bytes + stored.json.len() <= MAX_BATCH_BYTES;
                bytes += stored.json.len();
                fits
            })
            .map(|stored| stored.report.clone())
            .collect()
    }

    /// Removes the acknowledged reports of a batch; returns how many were not acknowledged.
    pub(crate) fn acknowledge(&self, batch: &[Report], acknowledged: &[Acknowledgement]) -> usize {
        let known: HashSet<(ExecutionId, u64)> =
            acknowledged.iter().map(|ack| (ack.execution_id, ack.sequence)).collect();
        let key = |report: &Report| (report.execution_id, report.sequence);
        self.waiting().retain(|_, stored| !known.contains(&key(&stored.report)));
        batch.iter().filter(|report| !known.contains(&key(report))).count()
    }

    /// The number of unacknowledged reports.
    pub(crate) fn len(&self) -> usize {
        self.waiting().len()
    }

    /// Whether every report was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting().is_empty()
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<u64, StoredReport>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use api_types::execution::ComputeState;
    use api_types::protocol::FailureCause;

    use super::*;
    use crate::testing::execution_id;

    fn stored(position: u64, bytes: usize) -> StoredReport {
        let report = Report {
            execution_id: execution_id(position.into()),
            sequence: 1,
            compute_state: ComputeState::AskForBidAccepted,
            process_ended: false,
            message: String::new(),
            cause: FailureCause::Task,
            run_output: None,
            published_result: None,
            tail: None,
            usage: None,
        };
        StoredReport { position, report, json: "x".repeat(bytes) }
    }

    fn acknowledgement(report: &Report) -> Acknowledgement {
        Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
    }

    #[tokio::test]
    async fn reports_leave_in_order_and_stay_until_they_are_acknowledged() {
        let outbox = Outbox::default();
        outbox.push(vec![stored(2, 1), stored(1, 1), stored(3, 1)]);
        let batch = outbox.next_batch().await;
        let ids: Vec<_> = batch.iter().map(|report| report.execution_id).collect();
        assert_eq!(ids, [1, 2, 3].map(execution_id));
        assert_eq!(outbox.acknowledge(&batch, &[acknowledgement(&batch[1])]), 2);
        let rest = outbox.next_batch().await;
        assert_eq!(rest, [batch[0].clone(), batch[2].clone()]);
        let all: Vec<_> = rest.iter().map(acknowledgement).collect();
        assert_eq!(outbox.acknowledge(&rest, &all), 0);
        assert!(outbox.batch().is_empty());
    }

    #[test]
    fn a_batch_is_bounded_in_number_and_in_bytes() {
        let outbox = Outbox::default();
        outbox.push((1..=1500).map(|position| stored(position, 1)).collect());
        assert_eq!(outbox.batch().len(), MAX_REPORTS_PER_BATCH);
        let outbox = Outbox::default();
        outbox.push((1..=3).map(|position| stored(position, MAX_BATCH_BYTES / 2)).collect());
        assert_eq!(outbox.batch().len(), 2);
        let outbox = Outbox::default();
        outbox.push(vec![stored(1, MAX_BATCH_BYTES + 1), stored(2, 1)]);
        assert_eq!(outbox.batch().len(), 1);
    }
}
