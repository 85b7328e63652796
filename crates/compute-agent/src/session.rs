//! The session with the orchestrator: the agent joins, sends heartbeats, and rejoins when refused.
//!
//! An unreachable orchestrator changes nothing on this node: tasks keep running, and reports wait.
//! The agent stops work only when an orchestrator asks it to.

mod archives;
mod assignments;
pub(crate) mod drain;
pub(crate) mod enrolment;
pub(crate) mod heartbeat;
pub(crate) mod node_record;
mod reporter;
pub(crate) mod state;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use agent_core::node_state::Input;
use agent_core::session::{Joining, SessionEnd, ends_session};
use api_client::{Client, ClientError};
use api_types::engine::EngineType;
use api_types::protocol::SessionAnswer;
use api_types::{Code, NodeId};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::host::{clock, mint};
use crate::node::mailbox::{Mailbox, Message};
use crate::node::outbox::Outbox;
use crate::node::probe::Probes;
use crate::observer::Observer;
use crate::runtime::registry::Engines;
use heartbeat::Heartbeats;
use node_record::NodeRecord;
use state::SessionWatch;
pub(crate) use streams::Streams;

/// Delay of an agent whose identity another one has, if it is not ended.
const COPY_RETRY: Duration = Duration::from_secs(30);

/// The agent's connection to the orchestrator.
pub(crate) struct Session {
    pub(crate) client: Client,
    pub(crate) node_id: NodeId,
    pub(crate) record: Arc<NodeRecord>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) mailbox: Mailbox,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) observer: Arc<Observer>,
    pub(crate) watch: Arc<SessionWatch>,
    pub(crate) probes: Arc<Probes>,
    pub(crate) streams: Streams,
    pub(crate) heartbeats: Heartbeats,
    /// Of a node with a certificate: the orchestrator considers it expired.
    pub(crate) expired: Option<Arc<Notify>>,
}

/// The orchestrator does not know this session, or no longer does.
pub(crate) struct Refused;

// === impl Session ===

impl Session {
    /// Joins, and rejoins whenever the session ends; never returns.
    pub(crate) async fn keep(&self) {
        let mut joining = Joining::default();
        let mut engines = self.engines.available();
        loop {
            let offered = engines.borrow_and_update().clone();
            let answer = self.join(&offered, &mut joining).await;
            joining.joined(clock::steady());
            self.probes.joined(&answer);
            self.watch.joined(&answer);
            self.observer.metrics.sessions.inc();
            let end = tokio::select! {
                Refused = self.heartbeats.keep(&answer) => SessionEnd::Refused,
                Refused = self.follow(answer.session) => SessionEnd::Refused,
                () = self.watch.refused(answer.session) => SessionEnd::Refused,
                // The sender lives as long as the engines, which `self` holds.
                _ = engines.changed() => SessionEnd::RecordChanged,
            };
            self.heartbeats.pause();
            self.watch.joining();
            info!(session = answer.session, ?end, "the session ended; rejoining");
            let delay = joining.ended(end, clock::steady(), mint::fraction());
            tokio::time::sleep(delay).await;
        }
    }

    /// Retries until the node has joined.
    async fn join(&self, engines: &BTreeSet<EngineType>, joining: &mut Joining) -> SessionAnswer {
        let request = self.record.session_request(engines);
        let mut warned = String::new();
        loop {
            match self.client.join(self.node_id, &request).await {
                Ok(answer) => {
                    let SessionAnswer { session, membership, .. } = answer;
                    info!(session, %membership, ?engines, "joined the orchestrator");
                    return answer;
                }
                Err(error) if error.code() == Some(Code::NodeConflict) => {
                    self.watch.note_copy(error.to_string());
                    tokio::time::sleep(COPY_RETRY).await;
                    continue;
                }
                Err(error) => {
                    if !self.distrusted(&error).await && error.code() == Some(Code::Forbidden) {
                        self.follow_if_rejected().await;
                    }
                    // Warn once per reason: the orchestrator may be unreachable for hours.
                    let reason = error.to_string();
                    if reason == warned {
                        debug!(reason, "cannot join the orchestrator");
                    } else {
                        warn!(reason, "cannot join the orchestrator; trying again");
                        warned = reason;
                    }
                }
            }
            tokio::time::sleep(joining.failed(mint::fraction())).await;
        }
    }
}

// === impl Session: certificates ===

impl Session {
    /// Does what the orchestrator means when it no longer takes the certificate of this node: one
    /// that has expired is renewed, and a node whose certificate is revoked stops its work, since
    /// no one will ask for it any more. Returns whether it was one of these.
    async fn distrusted(&self, error: &ClientError) -> bool {
        let Some(expired) = &self.expired else { return false };
        match error.code() {
            Some(Code::Unauthenticated) => expired.notify_one(),
            Some(Code::Forbidden) => {
                let nothing = Input::Snapshot(clock::steady(), Vec::new());
                self.mailbox.send(Message::Input(nothing)).await;
            }
            _ => return false,
        }
        true
    }
}

/// Whether the error means that the node has to rejoin.
fn is_refusal(error: &ClientError) -> bool {
    error.code().is_some_and(ends_session)
}
