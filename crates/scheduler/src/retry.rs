//! Retries: what happens to a slot whose execution did not complete.
//!
//! There are two budgets, so that neither consumes the other: `RetryPolicy` covers failures of the
//! task, and a fixed number of retries covers failures unrelated to the task.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use api_types::job::{JobStateType, JobType};
use api_types::{JobId, NodeId, Timestamp};

use crate::change::{ExecutionRow, PendingSlotRow, Tries};
use crate::ending::{Cause, End};
use crate::text::Text;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// How often a slot is retried after failures unrelated to the task; the limit stops a task that
/// crashes machines. It does not apply where `RetryPolicy` allows unlimited attempts.
pub(crate) const INFRA_RETRIES: u32 = 5;

/// A service that ran at least this long had a good run: the next retry delay is short again.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// How long a slot waits after a node declined it for lack of room.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Why a lost node fails an ops job.
const OPS_STAY: &str = "an ops job stays on its original nodes";

/// A slot to retry.
struct Retry {
    row: ExecutionRow,
    tries: Tries,
    delay: Duration,
}

// === impl Scheduler: retries ===

impl Scheduler {
    /// Handles the end of a run that counts against `RetryPolicy`: retries after a delay, or gives
    /// up.
    pub(crate) fn run_again(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, end: End) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let policy = job.plan.retry;
        if policy.attempts != 0 && row.tries.attempt >= policy.attempts {
            self.give_up(turn, &row, &used_up(row.tries.attempt, policy.attempts, &end));
            return;
        }
        let mut tries = row.tries.clone();
        tries.attempt = tries.attempt.saturating_add(1);
        let good = row.started_at.is_some_and(|started| turn.now.since(started) >= GOOD_RUN);
        tries.short_runs = if good { 0 } else { tries.short_runs.saturating_add(1) };
        if good {
            tries.infra_failures = 0;
        }
        let delay = backoff(policy.delay, policy.max_delay, tries.short_runs.max(1));
        self.pend(turn, Retry { row, tries, delay });
    }

    /// Handles a failure unrelated to the task: charges the infrastructure budget, and excludes the
    /// node for a while if the failure is tied to it.
    pub(crate) fn try_elsewhere(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, cause: Cause) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let policy = job.plan.retry;
        let job_type = job.plan.job_type;
        if cause == Cause::Lost && job_type == JobType::Ops {
            self.give_up(turn, &row, OPS_STAY);
            return;
        }
        let mut tries = row.tries.clone();
        if cause == Cause::Lost && job_type == JobType::Daemon {
            // The slot waits for its node, however often the node disconnects.
            self.pend(turn, Retry { row, tries, delay: Duration::ZERO });
            return;
        }
        let good = row.started_at.is_some_and(|started| turn.now.since(started) >= GOOD_RUN);
        if good {
            tries.infra_failures = 0;
        }
        let limited = policy.attempts != 0 && job_type != JobType::Daemon;
        if limited && tries.infra_failures >= INFRA_RETRIES {
            let times = tries.infra_failures + 1;
            let reason = format!("failed {times} times for reasons unrelated to the task");
            self.give_up(turn, &row, &reason);
            return;
        }
        tries.infra_failures = tries.infra_failures.saturating_add(1);
        let mut delay = Duration::ZERO;
        if cause.excludes() {
            let until = tries.exclusions.exclude(row.node, turn.now);
            if job.plan.is_per_node() {
                // No other node can run it.
                delay = until.since(turn.now);
            }
        }
        self.pend(turn, Retry { row, tries, delay });
    }

    /// Handles a node that turned out to have no room, which is not a failure. A short pause keeps
    /// the scheduler from offering the slot to the same node in a tight loop.
    pub(crate) fn no_room_after_all(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let tries = row.tries.clone();
        self.pend(turn, Retry { row, tries, delay: NO_ROOM_PAUSE });
    }

    /// Handles a failure on a probed node, which does not count against the slot.
    pub(crate) fn probe_failed(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let mut tries = row.tries.clone();
        let until = tries.exclusions.exclude(row.node, turn.now);
        let delay = if job.plan.is_per_node() { until.since(turn.now) } else { Duration::ZERO };
        self.pend(turn, Retry { row, tries, delay });
    }

    /// Moves the slot to another node, immediately and without charging a budget.
    pub(crate) fn move_slot(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let tries = row.tries.clone();
        self.pend(turn, Retry { row, tries, delay: Duration::ZERO });
    }

    /// Keeps the slot while its job waits as a whole. A slot that is bound to a node is not held back
    /// by that, and has a delay of its own.
    pub(crate) fn hold_slot(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, delay: Duration) {
        let (id, tries) = (row.job, row.tries.clone());
        let message = Text::from(retry_message(&row, delay, turn.wall));
        let Some(job) = self.jobs.get(&id) else { return };
        let of_slot = if job.plan.is_per_node() { delay } else { Duration::ZERO };
        self.pend(turn, Retry { row, tries, delay: of_slot });
        if let Some(job) = self.jobs.get_mut(&id) {
            job.extras.to_mut().retry = Some(message);
        }
    }

    /// The retry delay of a slot ended.
    pub(crate) fn retry_due(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        let rank = job.plan.rank;
        let Some(extra) = job.extras.existing() else { return };
        let Some(pinned) = extra.pending.end_delay(index).map(|slot| slot.pinned) else { return };
        match pinned {
            Some(node_id) => {
                if let Some(node) = self.nodes.get_mut(&node_id) {
                    node.delayed.remove(&(id, index));
                    node.pin(rank, index);
                    self.reservations.repinned.push(node_id);
                }
                // The slot of an ops job waits for a silent node as long as the job's executions
                // do.
                self.arm_give_up(node_id);
                self.fill_node(turn, node_id);
            }
            None => self.slot_is_ready(turn, id, index),
        }
        self.refresh_job(turn, id);
    }

    /// Gives up a slot of an ops job that waits for a lost node.
    pub(crate) fn abandon_ops(&mut self, turn: &mut Turn<'_>, id: JobId, index: u32, why: &str) {
        let message = format!("the execution with index {index} cannot run: {why}; {OPS_STAY}");
        self.end_job(turn, id, JobStateType::Failed, Text::from(message));
    }

    /// Returns the slot to the pending slots.
    fn pend(&mut self, turn: &mut Turn<'_>, retry: Retry) {
        let Retry { mut row, tries, delay } = retry;
        let evaluation = self.mint.evaluation();
        let job = self.jobs.get_mut(&row.job).expect("retries are of live jobs");
        job.extras.to_mut().retry = Some(Text::from(retry_message(&row, delay, turn.wall)));
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
        job.extras.to_mut().pending.insert(slot.clone());
        turn.out.changes.pending_slots.insert((row.job, row.index), Some(slot));
        row.followup = Some(evaluation);
        let (id, index) = (row.job, row.index);
        turn.out.changes.executions.insert(row.id, row);
        match (due, pinned) {
            (Some(due), pinned) => {
                self.timers.set(due, Timer::Retry(id, index));
                if let Some(node) = pinned.and_then(|node| self.nodes.get_mut(&node)) {
                    node.delayed.insert((id, index));
                }
            }
            (None, Some(node)) => self.pin(id, index, node),
            (None, None) => self.slot_is_ready(turn, id, index),
        }
    }

    fn pin(&mut self, id: JobId, index: u32, node: NodeId) {
        let rank = self.jobs[&id].plan.rank;
        if let Some(node) = self.nodes.get_mut(&node) {
            node.pin(rank, index);
            self.reservations.repinned.push(node.id());
        }
    }

    /// Gives up on the slot; the consequences depend on the job type.
    pub(crate) fn give_up(&mut self, turn: &mut Turn<'_>, row: &ExecutionRow, why: &str) {
        match self.jobs[&row.job].plan.job_type {
            JobType::Batch | JobType::Ops | JobType::Service => {
                let message = format!(
                    "execution {} (index {}): {}; {why}",
                    row.id, row.index, row.compute_message
                );
                self.end_job(turn, row.job, JobStateType::Failed, Text::from(message));
            }
            // The node keeps its slot, which remains in its final state.
            JobType::Daemon => {}
        }
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

/// The failure and the time of the next retry, for the job's message.
fn retry_message(row: &ExecutionRow, delay: Duration, wall: Timestamp) -> String {
    let (what, node) = (&row.compute_message, row.node.short());
    if delay.is_zero() {
        return format!("execution {} on {node} failed: {what}; it is tried again", row.index);
    }
    let next = (wall + delay).rfc3339_seconds();
    format!("execution {} on {node} failed: {what}; next try at {next}", row.index)
}

/// The delay before retry number `nth` (from 1): doubles from `delay` to `max_delay` seconds.
pub(crate) fn backoff(delay: u32, max_delay: u32, nth: u32) -> Duration {
    let doubled = u64::from(delay) << nth.saturating_sub(1).min(32);
    Duration::from_secs(doubled.min(u64::from(max_delay.max(delay))))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

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
