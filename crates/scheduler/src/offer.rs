//! Offers: how long a node may take to answer one.
//!
//! An offer that a connected node does not answer counts as the node's failure, so time in which no
//! answer could arrive counts for nothing: a pause of the process, a slow commit, a restart.

use alloc::format;
use core::time::Duration;

use api_types::ExecutionId;
use api_types::execution::ComputeState;

use crate::ending::End;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// How long a connected node may take to answer an offer; after that the slot is placed elsewhere.
/// The node cannot have started anything, because it never received a go-ahead.
const OFFER_TIMEOUT: Duration = Duration::from_secs(15);

/// A pause or a commit that takes longer than this leaves too little of that time for the answer:
/// what is decided leaves after its commit, and no answer is read meanwhile.
const HELD_UP: Duration = Duration::from_secs(5);

// === impl Scheduler: offers ===

impl Scheduler {
    /// The orchestrator was paused or busy with one commit for this long.
    pub fn held_up(&mut self, now: Moment, for_how_long: Duration) {
        if for_how_long > HELD_UP {
            self.await_answers(now);
        }
    }

    /// All offers wait as long again for their answer, because it could not arrive.
    pub(crate) fn await_answers(&mut self, now: Moment) {
        self.answers_due = now + OFFER_TIMEOUT;
    }

    /// Takes the offer back unless it is answered in time.
    pub(crate) fn await_answer(&mut self, id: ExecutionId, now: Moment) {
        self.timers.set(now + OFFER_TIMEOUT, Timer::Offer(id));
    }

    /// AskForBid => Cancelled, when a connected node did not answer the offer.
    pub(crate) fn offer_timed_out(&mut self, turn: &mut Turn<'_>, id: ExecutionId) {
        let offered = self.executions.get(&id).filter(|row| row.compute == ComputeState::AskForBid);
        if offered.is_some() && turn.now < self.answers_due {
            self.timers.set(self.answers_due, Timer::Offer(id));
        } else if offered.is_some() {
            let message = format!("no answer to the offer for {} s", OFFER_TIMEOUT.as_secs());
            self.end(turn, id, End::Unanswered, message.into());
        }
    }
}
