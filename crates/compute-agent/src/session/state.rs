//! The state of the session with the orchestrator, shared by everything that uses it.

use std::sync::Arc;
use std::time::Duration;

use agent_core::session::{LeaderTerm, SessionState};
use api_types::protocol::SessionAnswer;
use tokio::sync::watch;

use crate::host::{clock, mint};

/// The session state, shared by everything that uses it.
#[derive(Debug)]
pub(crate) struct SessionWatch {
    state: watch::Sender<SessionState>,
    /// The term of the orchestrator that leads, by its last answer.
    term: watch::Sender<String>,
    /// The last session that the orchestrator refused in any request.
    refused: watch::Sender<Option<u64>>,
    /// Why the orchestrator takes this agent for a copy of another.
    copy: watch::Sender<Option<String>>,
}

// === impl SessionWatch ===

impl SessionWatch {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: watch::Sender::new(SessionState::default()),
            term: watch::Sender::new(String::new()),
            refused: watch::Sender::new(None),
            copy: watch::Sender::new(None),
        })
    }

    pub(crate) fn state(&self) -> SessionState {
        *self.state.borrow()
    }

    /// The number of the session, once there is one.
    pub(crate) async fn session(&self) -> u64 {
        let mut states = self.state.subscribe();
        loop {
            if let Some(session) = states.borrow_and_update().session() {
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

    /// Records that another agent has the identity of this one, and why.
    pub(super) fn note_copy(&self, reason: String) {
        self.copy.send_replace(Some(reason));
    }

    /// Returns the reason once another agent has the identity of this one.
    pub(crate) async fn is_copy(&self) -> String {
        let mut copies = self.copy.subscribe();
        loop {
            if let Some(reason) = copies.borrow_and_update().clone() {
                return reason;
            }
            // It cannot close while `self` lives.
            drop(copies.changed().await);
        }
    }

    /// A stream is about to be opened, or reports to be sent.
    pub(super) fn leader_term(&self) -> LeaderTerm {
        LeaderTerm::begun_under(&self.term.borrow())
    }

    /// Returns when another orchestrator leads, and it is this node's turn to repeat what the former
    /// one has.
    pub(super) async fn is_replaced(&self, begun: &LeaderTerm) {
        let mut terms = self.term.subscribe();
        loop {
            let delay = begun.repeats_after(&terms.borrow_and_update(), mint::fraction());
            if let Some(delay) = delay {
                return tokio::time::sleep(delay).await;
            }
            // It cannot close while `self` lives.
            drop(terms.changed().await);
        }
    }

    pub(super) fn joined(&self, answer: &SessionAnswer) {
        self.term.send_replace(answer.term.clone());
        self.state.send_modify(|state| state.joined(answer, clock::steady()));
    }

    pub(super) fn joining(&self) {
        self.state.send_modify(SessionState::ended);
    }

    pub(super) fn renewed(&self, granted: Duration, term: String) {
        self.term.send_replace(term);
        self.state.send_modify(|state| state.renewed(granted, clock::steady()));
    }
}
