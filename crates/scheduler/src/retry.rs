//! Retries: what happens to a slot whose execution did not complete.
//!
//! There are two budgets, so that neither consumes the other: `RetryPolicy` covers failures of the
//! task, and a fixed number of retries covers failures unrelated to the task.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::time::Duration;

use api_types::job::{JobStateType, JobType};
use api_types::{JobId, NodeId};

use crate::change::{ExecutionRow, PendingSlotRow, Tries};
use crate::ending::{Cause, End};
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// How often a slot is retried after failures unrelated to the task; the limit stops a task that
/// crashes machines. It does not apply where `RetryPolicy` allows unlimited attempts.
pub(crate) const INFRA_RETRIES: u32 = 5;

/// A service that ran at least this long had a good run: the next retry delay is short again.
const GOOD_RUN: Duration = Duration::from_secs(60);

/// How long a slot stays away from a node that declined it for lack of room.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Why a lost node fails an ops job.
const OPS_STAY: &str = "an ops job stays on its original nodes";

/// A slot to retry.
struct Retry {
    row: ExecutionRow,
    tries: Tries,
    delay: Duration,
}

/// When and where a slot is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextTry {
    /// As soon as a node has room.
    WithRoom,
    At(Moment),
    /// As soon as another node has room, or from then on where it failed.
    Elsewhere {
        there: Moment,
    },
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

    /// Handles a failure unrelated to the task: charges the infrastructure budget, unless a probed
    /// node is to blame, and excludes the node for a while if the failure is tied to it.
    pub(crate) fn try_elsewhere(
        &mut self,
        turn: &mut Turn<'_>,
        row: ExecutionRow,
        cause: Cause,
        was_probe: bool,
    ) {
        let Some(job) = self.jobs.get(&row.job) else { return };
        let policy = job.plan.retry;
        let job_type = job.plan.job_type;
        match (cause, job_type) {
            // The node cannot have started what it did not accept, so nothing is lost there.
            (Cause::Lost, JobType::Ops) if row.accepted_at.is_none() => {
                return self.move_slot(turn, row);
            }
            (Cause::Lost | Cause::Removed, JobType::Ops) => {
                return self.give_up(turn, &row, OPS_STAY);
            }
            // The slot waits for its node, however often the node disconnects.
            (Cause::Lost, JobType::Daemon) | (Cause::Removed, _) => {
                return self.move_slot(turn, row);
            }
            _ => {}
        }
        let mut tries = row.tries.clone();
        // What a probed node cannot fetch or declines is no doing of its defect.
        let is_free = was_probe && matches!(cause, Cause::Node | Cause::Lost);
        if !is_free {
            if self.was_good_run(&row, cause, turn.now) {
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
        }
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

    /// Whether the execution ran for long. Nobody knows what a node does while it is silent.
    fn was_good_run(&self, row: &ExecutionRow, cause: Cause, now: Moment) -> bool {
        let silent_since = self.nodes.get(&row.node).and_then(|node| node.row.silent_since);
        let end = match cause {
            Cause::Lost => silent_since.unwrap_or(now),
            Cause::Fetch | Cause::Node | Cause::Missing | Cause::Room | Cause::Removed => now,
        };
        row.started_at.is_some_and(|started| end.since(started) >= GOOD_RUN)
    }

    /// Handles a node that turned out to have no room, which is not a failure. A short pause keeps
    /// the scheduler from offering the slot to the same node in a tight loop; another node may have
    /// it at once.
    pub(crate) fn no_room_after_all(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let mut tries = row.tries.clone();
        let may_move = self.jobs.get(&row.job).is_some_and(|job| !job.plan.is_per_node());
        let moves = may_move && tries.exclusions.avoid(row.node, turn.now + NO_ROOM_PAUSE);
        let delay = if moves { Duration::ZERO } else { NO_ROOM_PAUSE };
        self.pend(turn, Retry { row, tries, delay });
    }

    /// Places the slot again, immediately and without charging a budget.
    pub(crate) fn move_slot(&mut self, turn: &mut Turn<'_>, row: ExecutionRow) {
        let tries = row.tries.clone();
        self.pend(turn, Retry { row, tries, delay: Duration::ZERO });
    }

    /// Keeps the slot while its job waits as a whole. A slot that is bound to a node is not held back
    /// by that, and has a delay of its own.
    pub(crate) fn hold_slot(&mut self, turn: &mut Turn<'_>, row: ExecutionRow, delay: Duration) {
        let (id, tries) = (row.job, row.tries.clone());
        let message = NextTry::At(turn.now + delay).message(&row, turn);
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
        let next = self.next_try(&row, &tries, turn.now + delay, turn.now);
        let job = self.jobs.get_mut(&row.job).expect("retries are of live jobs");
        job.extras.to_mut().retry = Some(next.message(&row, turn));
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

    /// When a slot that waits until `due` is tried again, whose last execution was this.
    pub(crate) fn next_try(
        &self,
        row: &ExecutionRow,
        tries: &Tries,
        due: Moment,
        now: Moment,
    ) -> NextTry {
        let excluded = tries.exclusions.nodes(now);
        let class = self.jobs.get(&row.job).and_then(|job| job.class);
        let others = class.is_some_and(|class| {
            let pool = self.queue.class(class).pool;
            self.queue.nodes_of(pool).any(|node| !excluded.contains(&node))
        });
        let first_end = tries.exclusions.next_end(now).filter(|_| !others);
        let at = due.max(first_end.unwrap_or(due));
        let there = tries.exclusions.0.iter().find(|exclusion| exclusion.node == row.node);
        match there {
            _ if at > now => NextTry::At(at),
            Some(there) if there.until > now => NextTry::Elsewhere { there: there.until },
            Some(_) | None => NextTry::WithRoom,
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

// === impl NextTry ===

impl NextTry {
    /// The failure and when the slot is tried again, for the job's message.
    pub(crate) fn message(self, row: &ExecutionRow, turn: &Turn<'_>) -> Text {
        let clock = |at: Moment| (turn.wall + at.since(turn.now)).rfc3339_seconds();
        let next = match self {
            Self::WithRoom => "it is tried again".to_owned(),
            Self::At(at) => format!("next try at {}", clock(at)),
            Self::Elsewhere { there: at } => {
                format!("next try on another node, or there from {}", clock(at))
            }
        };
        let (what, node) = (&row.compute_message, row.node.short());
        format!("execution {} on {node} failed: {what}; {next}", row.index).into()
    }
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
