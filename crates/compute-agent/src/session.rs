//! The session with the orchestrator: joined, kept by heartbeats, joined anew when it is refused.
//!
//! That the orchestrator does not answer changes nothing on this node: what runs keeps running,
//! and what is reported waits. Work is stopped only when an orchestrator says so.

mod assignments;
pub(crate) mod drain;
pub(crate) mod heartbeat;
pub(crate) mod node_record;
mod reporter;
pub(crate) mod state;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, ClientError};
use api_types::engine::EngineType;
use api_types::protocol::SessionAnswer;
use api_types::{Code, NodeId};
use tracing::{debug, info, warn};

use crate::host::backoff::Backoff;
use crate::node::mailbox::Mailbox;
use crate::node::outbox::Outbox;
use crate::observer::Observer;
use crate::runtime::registry::Engines;
use heartbeat::Heartbeats;
use node_record::NodeRecord;
use state::SessionWatch;
pub(crate) use streams::Streams;

/// Waits between tries to reach the orchestrator. The longest is short: an orchestrator that
/// comes back should have its nodes before it takes them for lost.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// A session that ends sooner counts as a failed try: two agents with one id, each ending the
/// other's session, would otherwise do so as fast as they can.
const SHORTEST_SESSION: Duration = Duration::from_secs(5);

/// What speaks to the orchestrator.
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
}

/// The orchestrator does not know this session (any more).
pub(crate) struct Refused;

// === impl Session ===

impl Session {
    /// Joins and stays joined, for ever.
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
                // The sender lives as long as the engines, which this holds.
                _ = engines.changed() => {
                    info!("the engines of this node changed; joining anew");
                    self.heartbeats.pause();
                    self.watch.joining();
                    continue;
                }
            }
            self.heartbeats.pause();
            self.watch.joining();
            info!(session = answer.session, "the session is over; joining anew");
            if joined_at.elapsed() >= SHORTEST_SESSION {
                backoff.reset();
            }
            backoff.wait().await;
        }
    }

    /// Tries until it has joined.
    async fn join(&self, engines: &BTreeSet<EngineType>) -> SessionAnswer {
        let request = self.record.session_request(engines);
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut told = String::new();
        loop {
            match self.client.join(self.node_id, &request).await {
                Ok(answer) => {
                    let SessionAnswer { session, membership, .. } = answer;
                    info!(session, %membership, ?engines, "joined the orchestrator");
                    return answer;
                }
                Err(error) => {
                    // Once per reason: the orchestrator may be away for hours.
                    let reason = error.to_string();
                    if reason == told {
                        debug!(reason, "cannot join the orchestrator");
                    } else {
                        warn!(reason, "cannot join the orchestrator; trying again");
                        told = reason;
                    }
                }
            }
            backoff.wait().await;
        }
    }
}

/// Whether the answer means that the node has to join anew.
fn is_refusal(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::StaleSession | Code::NodeNotFound))
}
