//! Offers: how long a node may take to answer one.
//!
//! An offer that a connected node does not answer counts as the node's failure, so time in which no
//! answer could arrive counts for nothing: a pause of the process, a slow commit, a restart.

use alloc::format;
use core::time::Duration;

use api_types::ExecutionId;
use api_types::execution::ComputeState;

use crate::end::End;
use crate::rules::ending;
use crate::state::State;
use crate::state::executions::OFFER_TIMEOUT;
use crate::time::Moment;
use crate::timer::Timer;
use crate::turn::Turn;

/// A pause or a commit that takes longer than this leaves too little of that time for the answer:
/// what is decided leaves after its commit, and no answer is read until then.
const HELD_UP: Duration = Duration::from_secs(5);

// === Offers ===

/// The orchestrator was paused or busy with one commit for this long.
pub(crate) fn held_up(state: &mut State, now: Moment, for_how_long: Duration) {
    if for_how_long > HELD_UP {
        await_answers(state, now);
    }
}

/// All offers wait as long again for their answer, because it could not arrive.
pub(crate) fn await_answers(state: &mut State, now: Moment) {
    state.answers_due = now + OFFER_TIMEOUT;
}

/// AskForBid => Cancelled, when a connected node did not answer the offer.
pub(crate) fn offer_timed_out(state: &mut State, turn: &mut Turn<'_>, id: ExecutionId) {
    let offered = state.executions.get(&id).filter(|row| row.compute == ComputeState::AskForBid);
    if offered.is_some() && turn.now < state.answers_due {
        state.timers.set(state.answers_due, Timer::Offer(id));
    } else if offered.is_some() {
        let message = format!("no answer to the offer for {} s", OFFER_TIMEOUT.as_secs());
        ending::end(state, turn, id, End::Unanswered, message.into());
    }
}
