//! Unacknowledged reports, in the order in which they were made, and when they are sent.
//!
//! Only one batch is in flight at a time, so that the reports of an execution arrive in order.
//!
//! The number of executions bounds them: an execution makes at most four reports, and one a minute
//! during a long fetch; while the orchestrator is unreachable no new executions arrive.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::protocol::{Acknowledgement, Report, cut_message};

use super::retries::retries;
use crate::backoff::{Backoff, Fraction};
use crate::ledger::StoredReport;

/// The byte limit of a batch; the orchestrator refuses bodies above 10 MB.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// For how long a batch waits for its answer at first: a connection may be dead without a word, and
/// an offer whose answer is on it fails after 15 s.
const FIRST_TIME_LIMIT: Duration = Duration::from_secs(5);

/// For how long at most, where a network or a store is slow.
const LONGEST_TIME_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Outbox {
    /// By position.
    waiting: BTreeMap<u64, StoredReport>,
    backoff: Backoff,
    time_limit: Duration,
    /// Reports at the front that were refused together for what they say, so that they are sent one
    /// by one.
    suspects: usize,
}

/// The outcome of a batch that was answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// The acknowledgements of reports in the batch; the others were not requested.
    pub acknowledged: Vec<Acknowledgement>,
    /// How many reports of the batch were not acknowledged.
    pub left: usize,
    /// The delay before the next batch.
    pub delay: Duration,
}

// === impl Outbox ===

impl Default for Outbox {
    fn default() -> Self {
        let time_limit = FIRST_TIME_LIMIT;
        Self { waiting: BTreeMap::new(), backoff: retries(), time_limit, suspects: 0 }
    }
}

impl Outbox {
    pub fn push(&mut self, reports: Vec<StoredReport>) {
        self.waiting.extend(reports.into_iter().map(|report| (report.position, report)));
    }

    /// The next batch of at most `most` reports, which stay here until they are acknowledged.
    pub fn batch(&self, most: usize) -> Vec<Report> {
        let mut bytes = 0;
        let most = if self.suspects > 0 { 1 } else { most };
        let waiting = self.waiting.values().take(most);
        let fitting = waiting.take_while(|stored| {
            // The first report always fits: it is made smaller when it is refused.
            let fits = bytes == 0 || bytes + stored.json.len() <= MAX_BATCH_BYTES;
            bytes += stored.json.len();
            fits
        });
        fitting.map(|stored| stored.report.clone()).collect()
    }

    /// The batch was answered: what is acknowledged leaves.
    pub fn answered(
        &mut self,
        batch: &[Report],
        acknowledged: Vec<Acknowledgement>,
        fraction: Fraction,
    ) -> Acknowledged {
        let known: BTreeSet<_> =
            acknowledged.iter().map(|ack| (ack.execution_id, ack.sequence)).collect();
        // The batch was taken from the front, and what came since is behind it.
        let sent = self.waiting.iter().take(batch.len());
        let arrived = sent.filter_map(|(position, StoredReport { report, .. })| {
            let (execution_id, sequence) = (report.execution_id, report.sequence);
            let is_known = known.contains(&(execution_id, sequence));
            is_known.then_some((*position, Acknowledgement { execution_id, sequence }))
        });
        let (positions, acknowledged): (Vec<_>, Vec<_>) = arrived.unzip();
        for position in positions {
            self.waiting.remove(&position);
        }
        self.suspects = self.suspects.saturating_sub(acknowledged.len());
        self.time_limit = (self.time_limit / 2).max(FIRST_TIME_LIMIT);
        let left = batch.len() - acknowledged.len();
        let delay = match left {
            0 => {
                self.backoff.reset();
                Duration::ZERO
            }
            _ => self.backoff.next_delay(fraction),
        };
        Acknowledged { acknowledged, left, delay }
    }

    /// The batch was refused for what it says, for this reason. One such report must not keep all
    /// others from being told: they are sent one by one, and of one that is refused alone only the
    /// state and its cause remain.
    pub fn refused(&mut self, batch: &[Report], reason: &str, fraction: Fraction) -> Duration {
        match batch {
            [one] => {
                let mut message = format!("its node cannot report more of it: {reason}");
                cut_message(&mut message);
                if let Some(mut first) = self.waiting.first_entry() {
                    first.get_mut().report = one.bare(message);
                    first.get_mut().json.clear();
                }
            }
            _ => self.suspects = batch.len(),
        }
        self.backoff.next_delay(fraction)
    }

    /// The batch was lost: it is sent again, after this delay.
    pub fn failed(&mut self, fraction: Fraction) -> Duration {
        self.backoff.next_delay(fraction)
    }

    /// For how long the next batch waits for its answer.
    pub fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// The batch was not answered within its time limit: it is sent again, after this delay, and
    /// waits longer.
    pub fn unanswered(&mut self, fraction: Fraction) -> Duration {
        self.time_limit = (self.time_limit * 2).min(LONGEST_TIME_LIMIT);
        self.failed(fraction)
    }

    /// The number of unacknowledged reports.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether every report was acknowledged.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use api_types::execution::ComputeState;
    use api_types::protocol::MAX_REPORTS_PER_BATCH;
    use api_types::testing::execution_id;

    use super::super::retries::RETRY_FIRST;
    use super::*;

    fn stored(position: u64, bytes: usize) -> StoredReport {
        let execution = execution_id(position.into());
        let report = Report::new(execution, 1, ComputeState::AskForBidAccepted);
        StoredReport { position, report, json: "x".repeat(bytes) }
    }

    fn acknowledgement(report: &Report) -> Acknowledgement {
        Acknowledgement { execution_id: report.execution_id, sequence: report.sequence }
    }

    fn outbox(reports: Vec<StoredReport>) -> Outbox {
        let mut outbox = Outbox::default();
        outbox.push(reports);
        outbox
    }

    #[test]
    fn reports_leave_in_order_and_stay_until_they_are_acknowledged() {
        let mut outbox = outbox(vec![stored(2, 1), stored(1, 1), stored(3, 1)]);
        let batch = outbox.batch(MAX_REPORTS_PER_BATCH);
        let ids: Vec<_> = batch.iter().map(|report| report.execution_id).collect();
        assert_eq!(ids, [1, 2, 3].map(execution_id));
        let second = vec![acknowledgement(&batch[1])];
        let answered = outbox.answered(&batch, second.clone(), 1.0);
        assert_eq!((answered.left, answered.delay), (2, RETRY_FIRST));
        assert_eq!(answered.acknowledged, second);
        let rest = outbox.batch(MAX_REPORTS_PER_BATCH);
        assert_eq!(rest, [batch[0].clone(), batch[2].clone()]);
        let all: Vec<_> = rest.iter().map(acknowledgement).collect();
        let answered = outbox.answered(&rest, all, 1.0);
        assert_eq!((answered.left, answered.delay), (0, Duration::ZERO));
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_report_that_was_not_sent_is_not_acknowledged() {
        let mut outbox = outbox(vec![stored(1, 1), stored(2, 1)]);
        let batch = outbox.batch(1);
        let second = acknowledgement(&stored(2, 1).report);
        let answered = outbox.answered(&batch, vec![second], 1.0);
        assert_eq!((answered.acknowledged, answered.left), (vec![], 1));
        assert_eq!(outbox.len(), 2);
    }

    #[test]
    fn a_batch_that_fails_is_repeated_ever_more_rarely_until_one_is_acknowledged() {
        let mut outbox = outbox(vec![stored(1, 1)]);
        assert_eq!(outbox.failed(1.0), RETRY_FIRST);
        assert_eq!(outbox.failed(1.0), RETRY_FIRST * 2);
        let batch = outbox.batch(1);
        outbox.answered(&batch, vec![acknowledgement(&batch[0])], 1.0);
        assert_eq!(outbox.failed(1.0), RETRY_FIRST);
    }

    #[test]
    fn a_batch_that_is_not_answered_is_repeated_soon_and_waits_longer_where_that_is_needed() {
        let mut outbox = outbox(vec![stored(1, 1)]);
        let offers_wait = Duration::from_secs(15);
        assert!(outbox.time_limit() * 2 < offers_wait);
        for seconds in [10, 20, 30, 30] {
            outbox.unanswered(1.0);
            assert_eq!(outbox.time_limit(), Duration::from_secs(seconds));
        }
        outbox.failed(1.0);
        assert_eq!(outbox.time_limit(), Duration::from_secs(30), "nothing waited for an answer");
        let batch = outbox.batch(1);
        for seconds in [15, 7, 5, 5] {
            outbox.answered(&batch, vec![], 1.0);
            assert_eq!(outbox.time_limit().as_secs(), seconds);
        }
    }

    #[test]
    fn a_report_that_is_refused_is_found_and_made_bare_while_all_others_arrive() {
        let mut outbox = outbox((1..=5).map(|position| stored(position, 9)).collect());
        let is_refused =
            |report: &Report| report.execution_id == execution_id(3) && report.message.is_empty();
        let mut arrived = Vec::new();
        for _ in 0..7 {
            let batch = outbox.batch(MAX_REPORTS_PER_BATCH);
            if batch.iter().any(is_refused) {
                outbox.refused(&batch, "it is too long", 1.0);
                continue;
            }
            let all: Vec<_> = batch.iter().map(acknowledgement).collect();
            outbox.answered(&batch, all, 1.0);
            arrived.extend(batch);
        }
        assert!(outbox.is_empty());
        let ids: Vec<_> = arrived.iter().map(|report| report.execution_id).collect();
        assert_eq!(ids, [1, 2, 3, 4, 5].map(execution_id));
        assert_eq!(arrived[2].message, "its node cannot report more of it: it is too long");
        outbox.push(vec![stored(6, 1), stored(7, 1)]);
        assert_eq!(outbox.batch(MAX_REPORTS_PER_BATCH).len(), 2, "together again");
    }

    #[test]
    fn a_batch_is_bounded_in_number_and_in_bytes() {
        let many = outbox((1..=1500).map(|position| stored(position, 1)).collect());
        assert_eq!(many.batch(MAX_REPORTS_PER_BATCH).len(), MAX_REPORTS_PER_BATCH);
        let half = MAX_BATCH_BYTES / 2;
        let large = outbox((1..=3).map(|position| stored(position, half)).collect());
        assert_eq!(large.batch(MAX_REPORTS_PER_BATCH).len(), 2);
        let larger = outbox(vec![stored(1, MAX_BATCH_BYTES + 1), stored(2, 1)]);
        assert_eq!(larger.batch(MAX_REPORTS_PER_BATCH).len(), 1);
    }
}
