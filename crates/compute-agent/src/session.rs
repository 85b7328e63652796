//! The session with the orchestrator: joined, kept by heartbeats, joined anew when it is refused.
//!
//! That the orchestrator does not answer changes nothing on this node: what runs keeps running,
//! and what is reported waits. Work is stopped only when an orchestrator says so.

mod assignments;
mod reporter;
mod streams;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api_client::{Client, ClientError};
use api_types::engine::EngineType;
use api_types::node::Membership;
use api_types::protocol::{Heartbeat, SessionAnswer};
use api_types::{Code, NodeId, Timestamp};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::{debug, info, warn};

use crate::backoff::Backoff;
use crate::clock;
use crate::executor::Engines;
use crate::node_record::NodeRecord;
use crate::observer::Observer;
use crate::outbox::Outbox;
use crate::supervisor::Mailbox;
pub(crate) use streams::Streams;

/// Waits between tries to reach the orchestrator. The longest is short: an orchestrator that
/// comes back should have its nodes before it takes them for lost.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// A session that ends sooner counts as a failed try: two agents with one id, each ending the
/// other's session, would otherwise do so as fast as they can.
const SHORTEST_SESSION: Duration = Duration::from_secs(5);

/// Bounds on the interval that the orchestrator asks for.
const HEARTBEAT_LEAST: Duration = Duration::from_millis(100);
const HEARTBEAT_MOST: Duration = Duration::from_secs(60);

/// A heartbeat that failed is tried again after this part of the interval, so that several tries
/// fit into the lease.
const TRIES_PER_INTERVAL: u32 = 4;

/// Where the session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// `renewed_at` is of the session before; zero when there was none.
    Joining { renewed_at: Timestamp },
    Joined {
        session: u64,
        membership: Membership,
        renewed_at: Timestamp,
        /// Not renewed for this long, the node is taken for lost.
        lease: Duration,
    },
}

/// The session as all its users see it.
#[derive(Debug)]
pub(crate) struct SessionWatch {
    state: watch::Sender<SessionState>,
    /// The last session of which someone was told that it is over.
    refused: watch::Sender<Option<u64>>,
}

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
}

/// The orchestrator does not know this session (any more).
struct Refused;

// === impl SessionState ===

impl SessionState {
    /// Whether the orchestrator still counts on this node, as far as the node can know.
    pub(crate) fn has_lease(&self) -> bool {
        match self {
            Self::Joined { renewed_at, lease, .. } => clock::now().since(*renewed_at) < *lease,
            Self::Joining { .. } => false,
        }
    }
}

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
                Refused = self.heartbeats(&answer) => {}
                Refused = self.follow(answer.session) => {}
                () = self.watch.refused(answer.session) => {}
                // The sender lives as long as the engines, which this holds.
                _ = engines.changed() => {
                    info!("the engines of this node changed; joining anew");
                    self.watch.joining();
                    continue;
                }
            }
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

    async fn heartbeats(&self, answer: &SessionAnswer) -> Refused {
        let every = Duration::from_secs(answer.heartbeat_seconds);
        let every = every.clamp(HEARTBEAT_LEAST, HEARTBEAT_MOST);
        let mut ticks = tokio::time::interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick comes at once, and joining has just renewed the lease.
        ticks.tick().await;
        let mut missed = 0;
        loop {
            ticks.tick().await;
            let Ok(usage) = self.mailbox.usage().await else {
                return std::future::pending().await;
            };
            let heartbeat = Heartbeat {
                session: answer.session,
                used_capacity: usage.used.into(),
                running_executions: usage.running_executions,
                enqueued_executions: usage.enqueued_executions,
            };
            // One that got lost on the way must not keep the next from being sent: on a connection
            // that was cut, the kernel tries again ever more rarely.
            match self.client.heartbeat(self.node_id, &heartbeat, every).await {
                Ok(_) => {
                    if missed > 0 {
                        info!(missed, "the orchestrator answers again");
                    }
                    missed = 0;
                    self.watch.renewed();
                }
                Err(error) if is_refusal(&error) => return Refused,
                Err(error) => {
                    missed += 1;
                    self.observer.metrics.missed_heartbeats.inc();
                    if missed == 1 {
                        warn!(%error, "a heartbeat failed; work goes on, trying again");
                    }
                    ticks.reset_after(every / TRIES_PER_INTERVAL);
                }
            }
        }
    }
}

/// Whether the answer means that the node has to join anew.
fn is_refusal(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::StaleSession | Code::NodeNotFound))
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

    /// The number of the session, as soon as there is one.
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

    /// Someone was told that this session is over. A later one is left alone.
    fn refuse(&self, session: u64) {
        self.refused.send_replace(Some(session));
    }

    async fn refused(&self, session: u64) {
        // It cannot close while `self` lives.
        drop(self.refused.subscribe().wait_for(|refused| *refused == Some(session)).await);
    }

    fn joined(&self, answer: &SessionAnswer) {
        let SessionAnswer { session, membership, lease_seconds, .. } = *answer;
        self.state.send_replace(SessionState::Joined {
            session,
            membership,
            renewed_at: clock::now(),
            lease: Duration::from_secs(lease_seconds),
        });
    }

    fn joining(&self) {
        self.state.send_modify(|state| {
            let (SessionState::Joining { renewed_at } | SessionState::Joined { renewed_at, .. }) =
                *state;
            *state = SessionState::Joining { renewed_at };
        });
    }

    fn renewed(&self) {
        self.state.send_modify(|state| match state {
            SessionState::Joined { renewed_at, .. } => *renewed_at = clock::now(),
            SessionState::Joining { .. } => {}
        });
    }
}
