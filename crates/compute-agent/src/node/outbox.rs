//! Unacknowledged reports: the supervisor adds them, the reporter sends them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agent_core::StoredReport;
use agent_core::session::{self, Acknowledged};
use api_types::protocol::{Acknowledgement, MAX_REPORTS_PER_BATCH, Report};
use tokio::sync::Notify;

use crate::host::mint;

/// [`session::Outbox`], shared.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    reports: Mutex<session::Outbox>,
    pushed: Notify,
}

// === impl Outbox ===

impl Outbox {
    pub(crate) fn push(&self, reports: Vec<StoredReport>) {
        if reports.is_empty() {
            return;
        }
        self.reports().push(reports);
        self.pushed.notify_one();
    }

    /// Waits for the next batch, which stays here until it is acknowledged. For a single reader.
    pub(crate) async fn next_batch(&self) -> Vec<Report> {
        loop {
            let batch = self.reports().batch(MAX_REPORTS_PER_BATCH);
            if !batch.is_empty() {
                return batch;
            }
            self.pushed.notified().await;
        }
    }

    pub(crate) fn answered(
        &self,
        batch: &[Report],
        acknowledged: Vec<Acknowledgement>,
    ) -> Acknowledged {
        self.reports().answered(batch, acknowledged, mint::fraction())
    }

    /// Returns the delay before the batch is sent again.
    pub(crate) fn failed(&self) -> Duration {
        self.reports().failed(mint::fraction())
    }

    /// For how long the next batch waits for its answer.
    pub(crate) fn time_limit(&self) -> Duration {
        self.reports().time_limit()
    }

    /// Its time limit is over. Returns the delay before the batch is sent again.
    pub(crate) fn unanswered(&self) -> Duration {
        self.reports().unanswered(mint::fraction())
    }

    /// Returns the delay before what is left of the batch is sent again.
    pub(crate) fn refused(&self, batch: &[Report], reason: &str) -> Duration {
        self.reports().refused(batch, reason, mint::fraction())
    }

    /// The number of unacknowledged reports.
    pub(crate) fn len(&self) -> usize {
        self.reports().len()
    }

    /// Whether every report was acknowledged.
    pub(crate) fn is_empty(&self) -> bool {
        self.reports().is_empty()
    }

    fn reports(&self) -> MutexGuard<'_, session::Outbox> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
