//! Whether the orchestrator that leads is the one that a request went to.
//!
//! An orchestrator that has lost the lead does not always learn it soon: its stream may stay open and
//! say nothing, and it may never answer what it was sent. The answers to heartbeats name the term of
//! the leader: once it is another one, the stream is opened again, and unanswered reports are sent
//! again. All nodes learn this at about the same time, so each waits for a random part of
//! [`REPEATS_WITHIN`].

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::time::Duration;

use crate::backoff::Fraction;

/// The longest delay until what a former leader has is repeated.
pub const REPEATS_WITHIN: Duration = Duration::from_secs(1);

/// The term of the leader when a request began, as far as the agent knew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderTerm(String);

// === impl LeaderTerm ===

impl LeaderTerm {
    /// A request begins; the last answer named this term.
    pub fn begun_under(known: &str) -> Self {
        Self(known.to_owned())
    }

    /// The delay until it is repeated; none while the leader is the same.
    pub fn repeats_after(&self, known: &str, fraction: Fraction) -> Option<Duration> {
        (self.0 != known).then(|| REPEATS_WITHIN.mul_f64(fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_former_leader_has_is_repeated_within_a_second() {
        let begun = LeaderTerm::begun_under("a");
        assert_eq!(begun.repeats_after("a", 1.0), None);
        assert_eq!(begun.repeats_after("b", 0.25), Some(REPEATS_WITHIN / 4));
        assert_eq!(begun.repeats_after("b", 1.0), Some(REPEATS_WITHIN));
        // One of an older release names none.
        assert_eq!(begun.repeats_after("", 0.0), Some(Duration::ZERO));
        assert_eq!(LeaderTerm::begun_under("").repeats_after("", 1.0), None);
    }
}
