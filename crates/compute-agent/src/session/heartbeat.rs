//! Heartbeats, on a thread and a connection of their own, so that they never wait.
//!
//! They carry what the supervisor publishes ([`Vitals`]) and never query it: a ledger that cannot
//! be written, a busy runtime or a large upload must not cost the lease. A probe that an answer
//! requests runs elsewhere, and a later heartbeat carries its outcome.

use std::sync::Arc;

use agent_core::session::Pace;
use api_client::Client;
use api_types::NodeId;
use api_types::protocol::{Heartbeat, SessionAnswer};
use tokio::sync::watch;
use tracing::{info, warn};

use super::state::SessionWatch;
use super::{Refused, is_refusal};
use crate::node::probe::Probes;
use crate::node::vitals::{CHECK, Vitals, Watchdog};
use crate::observer::Observer;

/// `EX_SOFTWARE`: the service manager restarts the agent, which adopts the running tasks.
const EXIT_HUNG: i32 = 70;

/// The heartbeat thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    sessions: watch::Sender<Option<SessionAnswer>>,
    refused: watch::Receiver<Option<u64>>,
}

/// The state of the thread.
struct Sender {
    client: Client,
    node_id: NodeId,
    vitals: Arc<Vitals>,
    session: Arc<SessionWatch>,
    probes: Arc<Probes>,
    observer: Arc<Observer>,
    refused: watch::Sender<Option<u64>>,
}

// === impl Heartbeats ===

impl Heartbeats {
    /// Starts the thread; `client` must not be shared.
    pub(crate) fn start(
        client: Client,
        node_id: NodeId,
        vitals: Arc<Vitals>,
        session: Arc<SessionWatch>,
        probes: Arc<Probes>,
        observer: Arc<Observer>,
    ) -> std::io::Result<Self> {
        let (sessions, granted) = watch::channel(None);
        let (refused, refusals) = watch::channel(None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let sender = Sender { client, node_id, vitals, session, probes, observer, refused };
        let body = move || runtime.block_on(sender.run(granted));
        std::thread::Builder::new().name("heartbeats".to_owned()).spawn(body)?;
        Ok(Self { sessions, refused: refusals })
    }

    /// Keeps the session until the orchestrator no longer knows it.
    pub(crate) async fn keep(&self, answer: &SessionAnswer) -> Refused {
        self.sessions.send_replace(Some(answer.clone()));
        let session = answer.session;
        let mut refusals = self.refused.clone();
        let refused = refusals.wait_for(|refused| *refused == Some(session)).await.is_ok();
        if !refused {
            // The thread has ended, which only happens when the process ends.
            return std::future::pending().await;
        }
        Refused
    }

    /// Stops heartbeats until the next session.
    pub(crate) fn pause(&self) {
        self.sessions.send_replace(None);
    }
}

// === impl Sender ===

impl Sender {
    async fn run(self, mut granted: watch::Receiver<Option<SessionAnswer>>) {
        let mut watchdog = Watchdog::default();
        loop {
            let answer = granted.borrow_and_update().clone();
            let beats = async {
                match &answer {
                    Some(answer) => self.beat(answer).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = granted.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Refused = beats => {
                    self.refused.send_replace(answer.map(|answer| answer.session));
                    if granted.changed().await.is_err() {
                        return;
                    }
                }
                () = self.watch_supervisor(&mut watchdog) => {}
            }
        }
    }

    /// Sends heartbeats until one is refused.
    async fn beat(&self, answer: &SessionAnswer) -> Refused {
        let mut pace = Pace::new(answer);
        loop {
            tokio::time::sleep(pace.delay()).await;
            let vitals = self.vitals.heartbeat(answer.session, pace.lease());
            let heartbeat = Heartbeat { probed: self.probes.outcome(), ..vitals };
            match self.client.heartbeat(self.node_id, &heartbeat, pace.time_limit()).await {
                Ok(answer) => {
                    let missed = pace.answered(&answer);
                    if missed > 0 {
                        info!(missed, "the orchestrator answers again");
                    }
                    self.session.renewed(pace.lease(), answer.term);
                    self.probes.requested(answer.probe);
                }
                Err(error) if is_refusal(&error) => return Refused,
                Err(error) => {
                    self.observer.metrics.missed_heartbeats.inc();
                    if pace.missed() == 1 {
                        warn!(%error, "a heartbeat failed; retrying, tasks keep running");
                    }
                }
            }
        }
    }

    /// Ends the process when the supervisor hangs: the tasks keep running, and the next agent
    /// adopts them. Never returns.
    async fn watch_supervisor(&self, watchdog: &mut Watchdog) {
        loop {
            tokio::time::sleep(CHECK).await;
            if watchdog.check(&self.vitals) {
                tracing::error!(
                    seconds = self.vitals.busy_for().as_secs(),
                    "the agent hangs and ends itself; its tasks run on, and the next start adopts \
                     them"
                );
                telemetry::log::finish();
                std::process::exit(EXIT_HUNG);
            }
        }
    }
}
