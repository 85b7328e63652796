//! What the agent knows about its session and its lease.

use core::time::Duration;

use api_types::Timestamp;
use api_types::node::Membership;
use api_types::protocol::SessionAnswer;

/// The state of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// `renewed_at` refers to the previous session; zero when there was none.
    Joining { renewed_at: Timestamp },
    Joined {
        session: u64,
        membership: Membership,
        renewed_at: Timestamp,
        /// The orchestrator considers the node lost when its lease is not renewed for this long.
        lease: Duration,
    },
}

// === impl SessionState ===

impl Default for SessionState {
    fn default() -> Self {
        Self::Joining { renewed_at: Timestamp::ZERO }
    }
}

impl SessionState {
    /// The number of the session, if there is one.
    pub fn session(&self) -> Option<u64> {
        match self {
            Self::Joined { session, .. } => Some(*session),
            Self::Joining { .. } => None,
        }
    }

    /// When the orchestrator last answered; zero if it never has.
    pub fn renewed_at(&self) -> Timestamp {
        let (Self::Joining { renewed_at } | Self::Joined { renewed_at, .. }) = *self;
        renewed_at
    }

    /// Whether the orchestrator still considers the node connected, as far as the node can know.
    pub fn has_lease(&self, now: Timestamp) -> bool {
        match self {
            Self::Joined { renewed_at, lease, .. } => now.since(*renewed_at) < *lease,
            Self::Joining { .. } => false,
        }
    }

    /// Joining, Joined => Joined.
    pub fn joined(&mut self, answer: &SessionAnswer, now: Timestamp) {
        let SessionAnswer { session, membership, lease_seconds, .. } = *answer;
        let lease = Duration::from_secs(lease_seconds);
        *self = Self::Joined { session, membership, renewed_at: now, lease };
    }

    /// Joined => Joined, with the lease that the orchestrator granted.
    pub fn renewed(&mut self, granted: Duration, now: Timestamp) {
        match self {
            Self::Joined { renewed_at, lease, .. } => (*renewed_at, *lease) = (now, granted),
            // The answer to a heartbeat of a session that has ended.
            Self::Joining { .. } => {}
        }
    }

    /// Joined => Joining.
    pub fn ended(&mut self) {
        *self = Self::Joining { renewed_at: self.renewed_at() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp(1_700_000_000_000_000_000);

    #[test]
    fn a_lease_is_held_for_as_long_as_it_was_granted_and_ends_with_its_session() {
        let second = Duration::from_secs(1);
        let mut state = SessionState::default();
        assert!(!state.has_lease(NOON) && state.session().is_none());
        let membership = Membership::Approved;
        let answer = SessionAnswer {
            session: 7,
            lease_seconds: 10,
            heartbeat_seconds: 3,
            membership,
            causes: alloc::vec::Vec::new(),
            term: alloc::string::String::new(),
        };
        state.joined(&answer, NOON);
        assert_eq!(state.session(), Some(7));
        assert!(state.has_lease(NOON + second * 9) && !state.has_lease(NOON + second * 10));
        let later = NOON + second * 20;
        state.renewed(second * 30, later);
        assert!(state.has_lease(later + second * 29) && !state.has_lease(later + second * 30));
        state.ended();
        assert!(!state.has_lease(later));
        state.renewed(second * 30, later + second);
        assert_eq!(state, SessionState::Joining { renewed_at: later });
    }
}
