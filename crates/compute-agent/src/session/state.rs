//! The state of the session with the orchestrator, shared by everything that uses it.

use std::sync::Arc;
use std::time::Duration;

use api_types::Timestamp;
use api_types::node::Membership;
use api_types::protocol::SessionAnswer;
use tokio::sync::watch;

use crate::host::clock;

/// The state of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
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

/// The session state, shared by everything that uses it.
#[derive(Debug)]
pub(crate) struct SessionWatch {
    state: watch::Sender<SessionState>,
    /// The last session that the orchestrator refused in any request.
    refused: watch::Sender<Option<u64>>,
}

// === impl SessionState ===

impl SessionState {
    /// Whether the orchestrator still considers the node connected, as far as the node can know.
    pub(crate) fn has_lease(&self) -> bool {
        match self {
            Self::Joined { renewed_at, lease, .. } => clock::steady().since(*renewed_at) < *lease,
            Self::Joining { .. } => false,
        }
    }
}

// === impl SessionWatch ===

impl SessionWatch {
    pub(crate) fn new() -> Arc<Self> {
        let state = watch::Sender::new(SessionState::Joining { renewed_at: Timestamp::ZERO });
        Arc::new(Self { state, refused: watch::Sender::new(None) })
    }

    pub(crate) fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    /// The number of the session, once there is one.
    pub(crate) async fn session(&self) -> u64 {
        let mut states = self.state.subscribe();
        loop {
            if let SessionState::Joined { session, .. } = *states.borrow_and_update() {
                return session;
            }
            // It cannot close while `self` lives.
            drop(states.changed().await);
        }
    }

    /// Records that a request was refused because this session is over. A later session is
    /// unaffected.
    pub(super) fn refuse(&self, session: u64) {
        self.refused.send_replace(Some(session));
    }

    pub(super) async fn refused(&self, session: u64) {
        // It cannot close while `self` lives.
        drop(self.refused.subscribe().wait_for(|refused| *refused == Some(session)).await);
    }

    pub(super) fn joined(&self, answer: &SessionAnswer) {
        let SessionAnswer { session, membership, lease_seconds, .. } = *answer;
        self.state.send_replace(SessionState::Joined {
            session,
            membership,
            renewed_at: clock::steady(),
            lease: Duration::from_secs(lease_seconds),
        });
    }

    pub(super) fn joining(&self) {
        self.state.send_modify(|state| {
            let (SessionState::Joining { renewed_at } | SessionState::Joined { renewed_at, .. }) =
                *state;
            *state = SessionState::Joining { renewed_at };
        });
    }

    pub(super) fn renewed(&self, granted: Duration) {
        self.state.send_modify(|state| match state {
            SessionState::Joined { renewed_at, lease, .. } => {
                *renewed_at = clock::steady();
                *lease = granted;
            }
            SessionState::Joining { .. } => {}
        });
    }
}
