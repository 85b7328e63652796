//! What becomes of a slot whose execution did not complete.
//!
//! Two budgets: `RetryPolicy` pays for failures of the task, and a fixed number of tries pays for
//! failures that are not the task's own, so that neither eats the other's.

use std::time::Duration;

use api_types::job::{JobStateType, JobType};
use api_types::node::Connection;
use api_types::{JobId, NodeId, Timestamp};

use super::change::{ExecutionRow, PendingSlotRow, Tries};
use super::execution::End;
use super::text::Text;
use super::timer::Timer;
use super::{Engine, Turn};

/// How often a slot is tried again after failures that were not the task's own.
pub(super) const FOREIGN_RETRIES: u32 = 5;

/// A run of a service that lasted as long as this was a good one: the next delay is short again.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// Why a lost node fails an ops job.
const OPS_STAY: &str = "an ops job runs on the nodes it began with";

/// A slot that is to be tried again.
struct Retry {
    row: ExecutionRow,
    tries: Tries,
    delay: Duration,
}

// === impl Engine: retries ===

impl Engine {
    /// A run ended that `RetryPolicy` pays for: again after a delay, or never.
    pub(super) fn run_again(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, end: End) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let policy = job.plan.retry;
        if policy.attempts != 0 && row.tries.attempt >= policy.attempts {
            self.give_up(turn, &row, &used_up(row.tries.attempt, policy.attempts, &end));
            return;
        }
        let mut tries = row.tries.clone();
        tries.attempt = tries.attempt.saturating_add(1);
        let ran = row.modify_time.since(row.start_time);
        let good = row.start_time != Timestamp::ZERO && ran >= GOOD_RUN;
        tries.streak = if good { 0 } else { tries.streak.saturating_add(1) };
        let delay = backoff(policy.delay, policy.max_delay, tries.streak.max(1));
        self.pend(turn, Retry { row, tries, delay });
    }

    /// A failure that is not the task's own: on another node where there is one.
    pub(super) fn try_elsewhere(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, end: End) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let policy = job.plan.retry;
        let job_type = job.plan.job_type;
        if end == End::Lost && job_type == JobType::Ops {
            self.give_up(turn, &row, OPS_STAY);
            return;
        }
        let mut tries = row.tries.clone();
        if end == End::Lost && job_type == JobType::Daemon {
            // It waits for its node, however often that goes away.
            self.pend(turn, Retry { row, tries, delay: Duration::ZERO });
            return;
        }
        if tries.foreign >= FOREIGN_RETRIES && job_type != JobType::Daemon {
            let reason = format!("placed {} times and never by its own fault", FOREIGN_RETRIES + 1);
            self.give_up(turn, &row, &reason);
            return;
        }
        tries.foreign = tries.foreign.saturating_add(1);
        if !tries.avoid.contains(&row.node) && tries.foreign <= FOREIGN_RETRIES {
            tries.avoid.push(row.node);
        }
        let elsewhere = !job.plan.is_per_node() && self.has_node_beside(row.job, &tries.avoid);
        let delay = if elsewhere || end == End::Lost {
            Duration::ZERO
        } else {
            backoff(policy.delay, policy.max_delay, tries.foreign)
        };
        self.pend(turn, Retry { row, tries, delay });
    }

    /// The slot has not failed: it only moves, at once and at no cost.
    pub(super) fn move_slot(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let tries = row.tries.clone();
        self.pend(turn, Retry { row, tries, delay: Duration::ZERO });
    }

    /// The delay of a slot is over.
    pub(super) fn retry_due(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        let Some(slot) = job.pending.get_mut(&index) else { return };
        match slot.due {
            // The timer of an earlier delay of the same slot.
            Some(due) if due > turn.now => return,
            None => return,
            Some(_) => slot.due = None,
        }
        match slot.pinned {
            Some(node_id) => {
                let ops = job.plan.job_type == JobType::Ops;
                let node = self.nodes.get_mut(&node_id);
                let connected =
                    node.as_ref().is_some_and(|node| node.row.connection == Connection::Connected);
                if ops && !connected {
                    return self.abandon_ops(turn, id, index, "its node was lost");
                }
                if let Some(node) = node {
                    node.pin(rank, index);
                }
                self.fill_node(turn, node_id);
            }
            None => self.place_job(turn, id),
        }
        self.refresh_job(turn, id);
    }

    /// A slot of an ops job waits for a node that is lost.
    pub(super) fn abandon_ops(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32, why: &str) {
        let message = format!("the execution with index {index} cannot run: {why}; {OPS_STAY}");
        self.end_job(turn, id, JobStateType::Failed, Text::from(message));
    }

    /// Puts the slot back among those that wait.
    fn pend(&mut self, turn: &mut Turn<'_>, retry: Retry) {
        let Retry { mut row, tries, delay } = retry;
        let evaluation = self.mint.evaluation();
        let job = self.jobs.get_mut(&row.job).expect("retries are of live jobs");
        let pinned = job.plan.is_per_node().then_some(row.node);
        let due = (delay > Duration::ZERO).then(|| turn.now + delay);
        let slot = PendingSlotRow {
            job: row.job,
            index: row.index,
            evaluation,
            pinned,
            tries,
            due,
            previous: Some(row.id),
        };
        job.pending.insert(row.index, slot.clone());
        turn.out.changes.pending_slots.insert((row.job, row.index), Some(slot));
        row.followup = Some(evaluation);
        let (id, index) = (row.job, row.index);
        turn.out.changes.executions.insert(row.id, row);
        match (due, pinned) {
            (Some(due), _) => self.timers.set(due, Timer::Retry(id, index)),
            (None, Some(node)) => self.pin(id, index, node),
            (None, None) => self.place_job(turn, id),
        }
    }

    fn pin(&mut self, id: JobId, index: u32, node: NodeId) {
        let rank = self.jobs[&id].plan.rank;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.pin(rank, index);
        }
    }

    /// The slot is not tried again; what that means depends on the type of the job.
    fn give_up(&mut self, turn: &mut Turn<'_>, row: &ExecutionRow, why: &str) {
        match self.jobs[&row.job].plan.job_type {
            JobType::Batch | JobType::Ops | JobType::Service => {
                let message = format!(
                    "execution {} (index {}): {}; {why}",
                    row.id, row.index, row.compute_message
                );
                self.end_job(turn, row.job, JobStateType::Failed, Text::from(message));
            }
            // The node keeps its slot, which stays as it ended.
            JobType::Daemon => {}
        }
    }

    fn has_node_beside(&self, job: JobId, avoid: &[NodeId]) -> bool {
        let class = self.jobs.get(&job).and_then(|job| job.class);
        class.is_some_and(|class| {
            let pool = self.queue.pool(self.queue.class(class).pool);
            pool.nodes.iter().any(|(_, node)| !avoid.contains(node))
        })
    }
}

fn used_up(attempt: u32, attempts: u32, end: &End) -> String {
    match (end, attempts) {
        (End::Completed, _) => {
            format!("it ended, and {attempt} of {attempts} attempts are used up")
        }
        (_, 1) => "no attempts left (RetryPolicy allows 1)".to_owned(),
        _ => format!("no attempts left ({attempt} of {attempts} used)"),
    }
}

/// The delay before retry number `nth` (from 1): doubles from `delay` to `max_delay` seconds.
fn backoff(delay: u32, max_delay: u32, nth: u32) -> Duration {
    let doubled = u64::from(delay) << nth.saturating_sub(1).min(32);
    Duration::from_secs(doubled.min(u64::from(max_delay.max(delay))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_bound() {
        let delays: Vec<_> = (1..=5).map(|nth| backoff(1, 6, nth).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 6, 6]);
        assert_eq!(backoff(0, 60, 9), Duration::ZERO);
        assert_eq!(backoff(5, 1, 1), Duration::from_secs(5));
        assert_eq!(backoff(1, 60, u32::MAX), Duration::from_secs(60));
    }
}
