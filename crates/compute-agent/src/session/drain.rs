//! Drains the node before the agent stops: no new work is placed, and running tasks finish.
//!
//! The orchestrator drains a node; the agent only requests it, as an operator would, and waits. A
//! note in the data directory records that the agent requested the drain, so that the next agent
//! undoes it and leaves an operator's decision alone.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_client::ClientError;
use api_types::node::{Eligibility, NodeAction};
use tracing::{debug, info, warn};

use crate::host::backoff::Backoff;
use crate::host::settings::Settings;
use crate::session::Session;

/// Interval between checks whether the node still has work.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// Delays between attempts to undo a drain.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// The reason given to the orchestrator, and shown to users.
const REASON: &str = "its agent is stopping";

pub(crate) struct Drain {
    session: Arc<Session>,
    /// Exists while the node is drained at its agent's request.
    note: PathBuf,
    /// Whether a stop waits for running tasks.
    on_stop: bool,
    deadline: Duration,
}

/// Why a drain cannot be requested.
#[derive(Debug, thiserror::Error)]
enum DrainError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("note it in the data directory")]
    Note(#[from] io::Error),
}

impl fmt::Debug for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("on_stop", &self.on_stop).finish_non_exhaustive()
    }
}

// === impl Drain ===

impl Drain {
    pub(crate) fn new(settings: &Settings, session: Arc<Session>, note: PathBuf) -> Self {
        let (on_stop, deadline) = (settings.drain_on_stop, settings.drain_deadline());
        Self { session, note, on_stop, deadline }
    }

    /// The longest time that [`Drain::leave`] waits.
    pub(crate) fn longest(&self) -> Duration {
        if self.on_stop { self.deadline } else { Duration::ZERO }
    }

    /// Returns immediately unless draining is configured, or if the orchestrator cannot be reached.
    /// Otherwise returns when all executions have ended and all reports are acknowledged, or at the
    /// deadline; tasks that still run then keep running.
    pub(crate) async fn leave(&self) {
        if !self.on_stop {
            return;
        }
        if let Err(error) = self.ask().await {
            return warn!(%error, "cannot drain the node; running tasks continue");
        }
        info!(deadline = ?self.deadline, "draining: waiting for running tasks");
        match tokio::time::timeout(self.deadline, self.finished()).await {
            Ok(()) => info!("drained"),
            Err(_) => warn!("the drain deadline has passed; running tasks continue"),
        }
    }

    async fn ask(&self) -> Result<(), DrainError> {
        let Session { client, node_id, .. } = &*self.session;
        let node = client.describe_node(node_id).await?;
        match node.eligibility {
            Eligibility::Draining => return Ok(()),
            // The operator's decision outlasts this stop.
            Eligibility::Cordoned => {}
            // Write the note first: a drain that no agent undoes is worse than a note without a
            // drain.
            Eligibility::Eligible => std::fs::write(&self.note, REASON)?,
        }
        client.act_on_node(node_id, NodeAction::Drain, REASON).await?;
        Ok(())
    }

    async fn finished(&self) {
        loop {
            // A supervisor that has ended runs nothing any more.
            let Ok(usage) = self.session.mailbox.usage().await else { return };
            let live = usage.running_executions + usage.enqueued_executions;
            if live == 0 && self.session.outbox.is_empty() {
                return;
            }
            debug!(live, "draining");
            tokio::time::sleep(CHECK_EVERY).await;
        }
    }

    /// Undoes the drain that the previous agent requested.
    pub(crate) async fn undo(&self) {
        if !self.note.exists() {
            return;
        }
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            self.session.watch.session().await;
            match self.take_back().await {
                Ok(()) => return info!("the node takes work again"),
                Err(error) => debug!(%error, "the drain cannot be undone yet"),
            }
            backoff.wait().await;
        }
    }

    async fn take_back(&self) -> Result<(), DrainError> {
        let Session { client, node_id, .. } = &*self.session;
        let node = client.describe_node(node_id).await?;
        if node.eligibility == Eligibility::Draining {
            client.act_on_node(node_id, NodeAction::Uncordon, "").await?;
        }
        std::fs::remove_file(&self.note)?;
        Ok(())
    }
}
