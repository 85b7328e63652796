//! Whether the orchestrator that leads is the one that opened the stream.
//!
//! An orchestrator that has lost the lead does not always learn it soon, and its stream may stay
//! open and say nothing. The answers to heartbeats name the term of the leader: once it is another
//! one, the stream is opened again. All nodes learn this at about the same time, so each waits for a
//! random part of [`REOPENS_WITHIN`].

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::time::Duration;

use crate::backoff::Fraction;

/// The longest delay until a stream of a former leader is opened again.
pub const REOPENS_WITHIN: Duration = Duration::from_secs(1);

/// The term of the leader when the stream was opened, as far as the agent knew it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamTerm(String);

// === impl StreamTerm ===

impl StreamTerm {
    /// A stream is opened; the last answer named this term.
    pub fn opened_under(known: &str) -> Self {
        Self(known.to_owned())
    }

    /// The delay until the stream is opened again; none while the leader is the same.
    pub fn reopens_after(&self, known: &str, fraction: Fraction) -> Option<Duration> {
        (self.0 != known).then(|| REOPENS_WITHIN.mul_f64(fraction))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_opened_again_within_a_second_of_another_term() {
        let opened = StreamTerm::opened_under("a");
        assert_eq!(opened.reopens_after("a", 1.0), None);
        assert_eq!(opened.reopens_after("b", 0.25), Some(REOPENS_WITHIN / 4));
        assert_eq!(opened.reopens_after("b", 1.0), Some(REOPENS_WITHIN));
        // One of an older release names none.
        assert_eq!(opened.reopens_after("", 0.0), Some(Duration::ZERO));
        assert_eq!(StreamTerm::opened_under("").reopens_after("", 1.0), None);
    }
}
