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
use api_client::{Client, ClientError};
use api_types::engine::EngineType;
use api_types::protocol::SessionAnswer;
use api_types::{Code, NodeId};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

use crate::host::backoff::Backoff;
use crate::host::clock;
use crate::node::mailbox::{Mailbox, Message};
use crate::node::outbox::Outbox;
use crate::observer::Observer;
use crate::runtime::registry::Engines;
use heartbeat::Heartbeats;
use node_record::NodeRecord;
use state::SessionWatch;
pub(crate) use streams::Streams;

/// Delays between attempts to reach the orchestrator. The longest is short, so that nodes reconnect
/// to a restarted orchestrator before it considers them lost.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// A session that ends sooner counts as a failed attempt; otherwise two agents with the same ID
/// would end each other's sessions in a tight loop.
const SHORTEST_SESSION: Duration = Duration::from_secs(5);

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
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut engines = self.engines.available();
        loop {
            let offered = engines.borrow_and_update().clone();
            let answer = self.join(&offered).await;
            let joined_at = tokio::time::Instant::now();
            self.watch.joined(&answer);
            self.observer.metrics.sessions.inc();
            tokio::select! {
                Refused = self.heartbeats.keep(&answer) => {}
                Refused = self.follow(answer.session) => {}
                () = self.watch.refused(answer.session) => {}
                // The sender lives as long as the engines, which `self` holds.
                _ = engines.changed() => {
                    info!("the engines of this node changed; rejoining");
                    self.heartbeats.pause();
                    self.watch.joining();
                    continue;
                }
            }
            self.heartbeats.pause();
            self.watch.joining();
            info!(session = answer.session, "the session ended; rejoining");
            if joined_at.elapsed() >= SHORTEST_SESSION {
                backoff.reset();
            }
            backoff.wait().await;
        }
    }

    /// Retries until the node has joined.
    async fn join(&self, engines: &BTreeSet<EngineType>) -> SessionAnswer {
        let request = self.record.session_request(engines);
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut warned = String::new();
        loop {
            match self.client.join(self.node_id, &request).await {
                Ok(answer) => {
                    let SessionAnswer { session, membership, .. } = answer;
                    info!(session, %membership, ?engines, "joined the orchestrator");
                    return answer;
                }
                Err(error) => {
                    self.distrusted(&error).await;
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
            backoff.wait().await;
        }
    }
}

// === impl Session: certificates ===

impl Session {
    /// Does what the orchestrator means when it no longer takes the certificate of this node: one
    /// that has expired is renewed, and a node whose certificate is revoked stops its work, since
    /// nobody will ask for it any more. Returns whether it was one of these.
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
    matches!(error.code(), Some(Code::StaleSession | Code::NodeNotFound))
}
