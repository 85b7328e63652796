//! Retries: what happens to a slot whose execution did not complete.
//!
//! There are two budgets, so that neither consumes the other: `RetryPolicy` covers failures of the
//! task, and a fixed number of retries covers failures unrelated to the task.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use core::time::Duration;

use api_types::execution::ComputeState;
use api_types::job::JobType;
use api_types::{ExecutionId, JobId};

use crate::change::{ExecutionRow, PendingSlotRow};
use crate::end::{Cause, End};
use crate::rules::outcome::{self, Extent};
use crate::rules::patience;
use crate::state::executions::GOOD_RUN;
use crate::state::{State, executions, outcomes};
use crate::streak::Streak;
use crate::text::Text;
use crate::time::Moment;
use crate::tries::Tries;
use crate::turn::Turn;

/// How often a slot is retried after failures unrelated to the task; the limit stops a task that
/// crashes machines. Where `RetryPolicy` allows unlimited attempts, it applies only to executions
/// that end their agents.
pub(crate) const INFRA_RETRIES: u32 = 5;

/// How long a slot stays away from a node that declined it for lack of room.
const NO_ROOM_PAUSE: Duration = Duration::from_secs(1);

/// Why a lost node fails an ops job.
const OPS_STAY: &str = "an ops job stays on its original nodes";

/// A slot to retry.
pub(crate) struct Retry {
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

// === Retries ===

/// Handles the end of a run that counts against `RetryPolicy`: retries after a delay, or gives
/// up.
pub(crate) fn run_again(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow, end: End) {
    let Some(job) = state.jobs.get(&row.job) else { return };
    let policy = job.plan.retry;
    if policy.attempts != 0 && row.tries.attempt >= policy.attempts {
        give_up(state, turn, &row, &used_up(row.tries.attempt, policy.attempts, &end));
        return;
    }
    let mut tries = row.tries.clone();
    tries.attempt = tries.attempt.saturating_add(1);
    let good = row.started_at.is_some_and(|started| turn.now.since(started) >= GOOD_RUN);
    tries.short_runs = if good { 0 } else { tries.short_runs.saturating_add(1) };
    if good {
        tries.infra_failures = 0;
        if let Some(extra) = state.jobs.get_mut(&row.job).and_then(|job| job.extras.existing()) {
            extra.streak = Streak::NONE;
        }
    }
    let delay = backoff(policy.delay, policy.max_delay, tries.short_runs.max(1));
    return_to_pending(state, turn, Retry { row, tries, delay });
}

/// Handles a failure unrelated to the task: charges the infrastructure budget, unless a probed
/// node is to blame, and excludes the node for a while if the failure is tied to it.
pub(crate) fn try_elsewhere(
    state: &mut State,
    turn: &mut Turn<'_>,
    row: ExecutionRow,
    cause: Cause,
    was_probe: bool,
) {
    let Some(job) = state.jobs.get(&row.job) else { return };
    let policy = job.plan.retry;
    let job_type = job.plan.job_type;
    match (cause, job_type) {
        // The node cannot have started what it did not accept, so nothing is lost there.
        (Cause::Lost, JobType::Ops) if row.accepted_at.is_none() => {
            return move_slot(state, turn, row);
        }
        (Cause::Lost | Cause::Removed, JobType::Ops) => {
            return give_up(state, turn, &row, OPS_STAY);
        }
        // The slot waits for its node, however often the node disconnects.
        (Cause::Lost, JobType::Daemon) | (Cause::Removed, _) => {
            return move_slot(state, turn, row);
        }
        _ => {}
    }
    let mut tries = row.tries.clone();
    // What a probed node cannot fetch or declines is no doing of its defect.
    let is_free = was_probe && matches!(cause, Cause::Node | Cause::Defect | Cause::Lost);
    if !is_free {
        if was_good_run(state, &row, cause, turn.now) {
            tries.infra_failures = 0;
        }
        let is_endless = policy.attempts == 0 || job_type == JobType::Daemon;
        // Nothing may end agents for ever.
        let limited = !is_endless || cause == Cause::EndedAgent;
        if limited && tries.infra_failures >= INFRA_RETRIES {
            let times = tries.infra_failures + 1;
            let reason = format!("failed {times} times for reasons unrelated to the task");
            give_up(state, turn, &row, &reason);
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
    return_to_pending(state, turn, Retry { row, tries, delay });
}

/// Whether the execution ran for long. It is unknown what a node does while it is silent.
fn was_good_run(state: &State, row: &ExecutionRow, cause: Cause, now: Moment) -> bool {
    let silent_since = state.nodes.get(&row.node).and_then(|node| node.row().silent_since);
    let end = match cause {
        Cause::Lost => silent_since.unwrap_or(now),
        // However long it runs before.
        Cause::EndedAgent => return false,
        Cause::Fetch
        | Cause::Node
        | Cause::Defect
        | Cause::Refused
        | Cause::Missing
        | Cause::Room
        | Cause::Removed => now,
    };
    row.started_at.is_some_and(|started| end.since(started) >= GOOD_RUN)
}

/// Handles a node that turned out to have no room, which is not a failure. A short pause keeps
/// the scheduler from offering the slot to the same node in a tight loop; another node may have
/// it at once.
pub(crate) fn no_room_after_all(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow) {
    let mut tries = row.tries.clone();
    let may_move = state.jobs.get(&row.job).is_some_and(|job| !job.plan.is_per_node());
    let moves = may_move && tries.exclusions.avoid(row.node, turn.now + NO_ROOM_PAUSE);
    let delay = if moves { Duration::ZERO } else { NO_ROOM_PAUSE };
    return_to_pending(state, turn, Retry { row, tries, delay });
}

/// Places the slot again, immediately and without charging a budget.
pub(crate) fn move_slot(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow) {
    let tries = row.tries.clone();
    try_again(state, turn, row, tries);
}

/// Places the slot again, immediately, with these tries.
pub(crate) fn try_again(state: &mut State, turn: &mut Turn<'_>, row: ExecutionRow, tries: Tries) {
    return_to_pending(state, turn, Retry { row, tries, delay: Duration::ZERO });
}

/// Keeps the slot while its job waits as a whole. A slot that is bound to a node is not held back
/// by that, and has a separate delay.
pub(crate) fn hold_slot(
    state: &mut State,
    turn: &mut Turn<'_>,
    row: ExecutionRow,
    delay: Duration,
) {
    let (id, tries) = (row.job, row.tries.clone());
    let message = retry_message(state, turn, &row, NextTry::At(turn.now + delay));
    let Some(job) = state.jobs.get(&id) else { return };
    let of_slot = if job.plan.is_per_node() { delay } else { Duration::ZERO };
    return_to_pending(state, turn, Retry { row, tries, delay: of_slot });
    if let Some(job) = state.jobs.get_mut(&id) {
        job.extras.to_mut().retry = Some(message);
    }
}

/// The retry delay of a slot ended.
pub(crate) fn retry_due(state: &mut State, turn: &mut Turn<'_>, id: JobId, index: u32) {
    let Some(pinned) = state.end_delay(turn.now, id, index) else { return };
    if let Some(node) = pinned {
        // The slot of an ops job waits for a silent node as long as the job's executions do.
        patience::arm_give_up(state, node);
        state.marks.nodes.push(node);
    }
    state.marks.jobs.push(id);
}

/// Gives up a slot of an ops job that waits for a lost node.
pub(crate) fn abandon_ops(
    state: &mut State,
    turn: &mut Turn<'_>,
    id: JobId,
    index: u32,
    why: &str,
) {
    let message = format!("[{index}] cannot run: {why}; {OPS_STAY}");
    outcomes::drop_waiting(state, turn, id, index);
    outcome::failed(state, turn, id, index, Extent::Slot, message.into());
}

/// Returns the slot to the pending slots.
fn return_to_pending(state: &mut State, turn: &mut Turn<'_>, retry: Retry) {
    let Retry { mut row, tries, delay } = retry;
    let evaluation = state.mint.evaluation();
    let next = next_try(state, &row, &tries, turn.now + delay, turn.now);
    let message = retry_message(state, turn, &row, next);
    let job = state.jobs.get_mut(&row.job).expect("retries are of live jobs");
    job.extras.to_mut().retry = Some(message);
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
    row.followup = Some(evaluation);
    turn.out.changes.executions.insert(row.id, row);
    state.add_pending(turn, slot);
}

/// When a slot that waits until `due` is tried again, whose last execution was this.
pub(crate) fn next_try(
    state: &State,
    row: &ExecutionRow,
    tries: &Tries,
    due: Moment,
    now: Moment,
) -> NextTry {
    let excluded = tries.exclusions.nodes(now);
    let class = state.jobs.get(&row.job).and_then(|job| job.class());
    let others = class.is_some_and(|class| {
        let pool = state.queue.class(class).pool;
        state.queue.nodes_of(pool).any(|node| !excluded.contains(&node))
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

/// The failure and when the slot is tried again, for the job's message. Equal failures in a row are
/// one message.
pub(crate) fn retry_message(
    state: &mut State,
    turn: &Turn<'_>,
    row: &ExecutionRow,
    next: NextTry,
) -> Text {
    let next = next.text(turn);
    let Some(job) = state.jobs.get_mut(&row.job) else { return Text::Constant("") };
    let is_finite = job.plan.job_type.is_finite();
    let streak = &mut job.extras.to_mut().streak;
    streak.add(row);
    let counts = if is_finite { streak.counts() } else { streak.counts_and_since() };
    let index = streak.index();
    let text = match (row.compute, index) {
        // A service whose process ended well ended all the same.
        (ComputeState::Completed, _) => format!("{} ended with exit code 0", place(state, row)),
        (_, Some(_)) if counts.is_empty() => failure(state, row),
        (_, Some(index)) => format!("[{index}]: {}", row.compute_message),
        (_, None) => row.compute_message.to_string(),
    };
    if !is_finite && let Some(job) = state.jobs.get_mut(&row.job) {
        let again = NextTry::WithRoom.text(turn);
        job.extras.to_mut().trial = Some(format!("{text}{counts}; {again}").into());
    }
    format!("{text}{counts}; {next}").into()
}

/// AskForBidAccepted => BidAccepted: a run after failed ones has begun.
pub(crate) fn run_began(state: &mut State, id: ExecutionId) {
    let Some(row) = state.executions.get(&id) else { return };
    if state.jobs.get(&row.job).is_some_and(|job| job.extras.unproven.contains(&id)) {
        executions::await_good_run(&mut state.timers, row);
    }
}

/// The run has lasted: its job need not say any more that it failed before.
pub(crate) fn good_run(state: &mut State, id: ExecutionId) {
    let Some(job) = state.executions.get(&id).map(|row| row.job) else { return };
    if let Some(extra) = state.jobs.get_mut(&job).and_then(|job| job.extras.existing()) {
        extra.unproven.remove(&id);
    }
    state.marks.jobs.push(job);
}

/// `[2] on node-a: exit code 3`.
pub(crate) fn failure(state: &State, row: &ExecutionRow) -> String {
    format!("{}: {}", place(state, row), row.compute_message)
}

fn place(state: &State, row: &ExecutionRow) -> String {
    format!("[{}] on {}", row.index, state.called(row.node))
}

/// Gives up on the slot; the consequences depend on the job.
pub(crate) fn give_up(state: &mut State, turn: &mut Turn<'_>, row: &ExecutionRow, why: &str) {
    give_up_to(state, turn, row, why, Extent::Slot);
}

/// The same, of a failure to this extent.
pub(crate) fn give_up_to(
    state: &mut State,
    turn: &mut Turn<'_>,
    row: &ExecutionRow,
    why: &str,
    extent: Extent,
) {
    match state.jobs[&row.job].plan.job_type {
        JobType::Batch | JobType::Ops | JobType::Service => {
            let failure = failure(state, row);
            let message = if why.is_empty() { failure } else { format!("{failure}; {why}") };
            outcome::failed(state, turn, row.job, row.index, extent, message.into());
        }
        // The node keeps its slot, which remains in its final state.
        JobType::Daemon => {}
    }
}

fn used_up(attempt: u32, attempts: u32, end: &End) -> String {
    match (end, attempts) {
        (End::Completed, _) => {
            format!("it ended, and {attempt} of {attempts} attempts are used up")
        }
        // There never was another attempt.
        (_, 1) => String::new(),
        _ => format!("no attempts left ({attempt} of {attempts} used)"),
    }
}

// === impl NextTry ===

impl NextTry {
    fn text(self, turn: &Turn<'_>) -> String {
        let clock = |at: Moment| (turn.wall + at.since(turn.now)).rfc3339_seconds();
        match self {
            Self::WithRoom => "it is tried again".to_owned(),
            Self::At(at) => format!("next try at {}", clock(at)),
            Self::Elsewhere { there: at } => {
                format!("next try on another node, or there from {}", clock(at))
            }
        }
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
