//! The assignments stream: opened, read, and reopened when it breaks off or falls silent.

use std::time::Duration;

use agent_core::node_state::Input;
use agent_core::session::{Followed, Follower, SILENCE, Violation};
use api_client::ClientError;
use api_types::protocol::AssignmentLine;
use failpoint::Fault;
use futures_util::{Stream, StreamExt};
use tracing::{debug, info, warn};

use super::{Refused, Session, is_refusal};
use crate::host::{clock, mint};
use crate::node::mailbox::Message;

/// The session of a node that has none.
const NO_SESSION: u64 = 0;

/// A rejected node expects its snapshot, which is empty, within this time.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why the agent stops reading a stream.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("nothing came for {SILENCE:?}")]
    Silent,
    #[error("the orchestrator ended it")]
    Ended,
    #[error("another orchestrator leads now")]
    OtherTerm,
    #[error(transparent)]
    Protocol(#[from] Violation),
}

impl Session {
    /// Passes every line of the stream to the supervisor, until the session is refused.
    pub(super) async fn follow(&self, session: u64) -> Refused {
        let mut follower = Follower::default();
        loop {
            follower.asks(clock::steady());
            let term = self.watch.leader_term();
            let broken = tokio::select! {
                broken = self.follow_one(session, &mut follower) => broken,
                () = self.watch.is_replaced(&term) => Broken::OtherTerm,
            };
            match broken {
                Broken::Client(error) if is_refusal(&error) => return Refused,
                Broken::Client(error) if self.distrusted(&error).await => {
                    warn!(%error, "the orchestrator does not trust this node any more");
                    return Refused;
                }
                broken => info!(reason = %broken, "the assignments stream broke off"),
            }
            tokio::time::sleep(follower.broke_off(mint::fraction())).await;
        }
    }

    /// Opens a stream and reads it. If this is dropped, the next stream repeats what was under way.
    async fn follow_one(&self, session: u64, follower: &mut Follower) -> Broken {
        match self.client.assignments(self.node_id, session).await {
            Ok(lines) => {
                debug!(session, "following the assignments");
                self.read(std::pin::pin!(lines), follower).await
            }
            Err(error) => error.into(),
        }
    }

    /// Follows the stream of a node that may not join, for a moment: if an operator has rejected it,
    /// the stream says that nothing is desired, and the node stops what it still runs.
    pub(super) async fn follow_if_rejected(&self) {
        let Ok(lines) = self.client.assignments(self.node_id, NO_SESSION).await else { return };
        let mut follower = Follower::default();
        follower.asks(clock::steady());
        let lines = std::pin::pin!(lines);
        drop(tokio::time::timeout(SNAPSHOT_TIMEOUT, self.read(lines, &mut follower)).await);
    }

    async fn read(
        &self,
        mut lines: impl Stream<Item = Result<AssignmentLine, ClientError>> + Unpin,
        follower: &mut Follower,
    ) -> Broken {
        loop {
            let line = match next(&mut lines).await {
                Ok(line) => line,
                Err(broken) => return broken,
            };
            match follower.line(line) {
                Ok(Followed::Nothing) => {}
                Ok(Followed::Input(Input::Change(assignment))) => {
                    match failpoint::reach("assignment.take").await {
                        None => {}
                        Some(Fault::Error) => return Broken::Ended,
                        Some(Fault::Twice) => {
                            let input = Input::Change(assignment.clone());
                            self.mailbox.send(Message::Input(input)).await;
                        }
                    }
                    self.mailbox.send(Message::Input(Input::Change(assignment))).await;
                }
                Ok(Followed::Input(input)) => {
                    if let Input::Snapshot(_, executions) = &input {
                        let executions = executions.len();
                        debug!(executions, "a snapshot of what is desired");
                    }
                    self.mailbox.send(Message::Input(input)).await;
                }
                Ok(Followed::Stream(request)) => self.streams.answer(request),
                Ok(Followed::Usage(request)) => self.streams.answer_usage(request),
                Err(violation) => return violation.into(),
            }
        }
    }
}

async fn next(
    lines: &mut (impl Stream<Item = Result<AssignmentLine, ClientError>> + Unpin),
) -> Result<AssignmentLine, Broken> {
    match tokio::time::timeout(SILENCE, lines.next()).await {
        Ok(Some(line)) => Ok(line?),
        Ok(None) => Err(Broken::Ended),
        Err(_) => Err(Broken::Silent),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_falls_silent_is_given_up() {
        let mut lines = stream::pending();
        assert!(matches!(next(&mut lines).await, Err(Broken::Silent)));
    }
}
