//! Who has waited for too long, and the rounds in which nodes are reserved for them.

use core::time::Duration;

use crate::rank::{Rank, Waiter};
use crate::settle::leftover::{Head, Settle};
use crate::settle::reservation;
use crate::settle::reservation::MAX_INSPECTED;
use crate::state::State;
use crate::timer::Timer;
use crate::turn::Turn;

/// A job has come to the head of its queue this long before a node is reserved for it: in a queue
/// that moves, no job starves.
const SETTLED: Duration = Duration::from_secs(5);

/// Time between two rounds of reserving.
const ROUND: Duration = Duration::from_secs(1);

// === Who starves ===

/// Notes who is the first of the queue now, and ends its reservation if it is for an entry that
/// does not wait any more.
pub(crate) fn follow_head(
    settle: &mut Settle,
    state: &mut State,
    turn: &mut Turn<'_>,
    waiter: Waiter,
    head: Option<Rank>,
) {
    if let Some(node) = state.reservations.node_of(waiter)
        && !reservation::still_waits(state, waiter, node)
        && !reservation::reserved_work_moved(state, waiter, node)
    {
        reservation::end_reservation(state, turn, node, "it does not wait for room any more");
    }
    let before = settle.starving.heads.get(&waiter).copied();
    if before.map(|before| before.rank) == head {
        return;
    }
    if let Some(before) = before {
        settle.starving.heads.remove(&waiter);
        settle.starving.starving.remove(&(before.rank, waiter));
        state.timers.cancel(Timer::Starvation(waiter));
    }
    let (Some(rank), Some(starvation)) = (head, state.settings.starvation) else { return };
    let since = state.jobs.get(&rank.job).and_then(|job| job.row().waiting_since);
    let due = (since.unwrap_or(turn.now) + starvation).max(turn.now + SETTLED);
    settle.starving.heads.insert(waiter, Head { rank, starves: false });
    state.timers.set(due, Timer::Starvation(waiter));
}

/// The head of a queue has waited for too long.
pub(crate) fn starvation_due(
    settle: &mut Settle,
    state: &mut State,
    turn: &Turn<'_>,
    waiter: Waiter,
) {
    let Some(head) = settle.starving.heads.get_mut(&waiter) else { return };
    head.starves = true;
    settle.starving.starving.insert((head.rank, waiter));
    if !state.timers.is_set(Timer::Reserve) {
        state.timers.set(turn.now, Timer::Reserve);
    }
}

/// Reserves nodes for those that starve, the first in rank first.
pub(crate) fn reserve_due(settle: &mut Settle, state: &mut State, turn: &mut Turn<'_>) {
    let mut left = MAX_INSPECTED;
    loop {
        let Some((rank, waiter)) = settle.starving.next() else {
            settle.starving.cursor = None;
            break;
        };
        if left == 0 {
            break;
        }
        if !reservation::may_reserve(state, rank) {
            settle.starving.cursor = None;
            break;
        }
        left = left.saturating_sub(reservation::reserve_for(state, turn, waiter, rank, None));
        settle.starving.cursor = Some((rank, waiter));
    }
    if !settle.starving.starving.is_empty() {
        state.timers.set(turn.now + ROUND, Timer::Reserve);
    }
}
