//! The assignments stream: opened, read, and reopened when it breaks off or falls silent.

use std::time::Duration;

use agent_core::node_state::Input;
use api_client::ClientError;
use api_types::Timestamp;
use api_types::protocol::{Assignment, AssignmentLine, KEEP_ALIVE_SECONDS};
use failpoint::Fault;
use futures_util::{Stream, StreamExt};
use tracing::{debug, info, warn};

use super::{RETRY_FIRST, RETRY_LONGEST, Refused, Session, is_refusal};
use crate::host::backoff::Backoff;
use crate::host::clock;
use crate::node::mailbox::Message;

/// After this long without a line, the stream counts as dead, whatever the connection reports.
const SILENCE: Duration = Duration::from_secs(3 * KEEP_ALIVE_SECONDS);

/// The most assignments in one snapshot; a longer one cannot be meant for one node, and the agent
/// closes the stream before it fills the memory.
const MAX_SNAPSHOT: u64 = 1_000_000;

/// Why the agent stops reading a stream.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("nothing came for {SILENCE:?}")]
    Silent,
    #[error("the orchestrator ended it")]
    Ended,
    #[error("{0}")]
    Protocol(&'static str),
}

impl Session {
    /// Passes every line of the stream to the supervisor, until the session is refused.
    pub(super) async fn follow(&self, session: u64) -> Refused {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let asked_at = clock::steady();
            let broken = match self.client.assignments(self.node_id, session).await {
                Ok(lines) => {
                    debug!(session, "following the assignments");
                    self.read(std::pin::pin!(lines), asked_at, &mut backoff).await
                }
                Err(error) => error.into(),
            };
            match broken {
                Broken::Client(error) if is_refusal(&error) => return Refused,
                Broken::Client(error) if self.distrusted(&error).await => {
                    warn!(%error, "the orchestrator does not trust this node any more");
                    return Refused;
                }
                broken => info!(reason = %broken, "the assignments stream broke off"),
            }
            backoff.wait().await;
        }
    }

    async fn read(
        &self,
        mut lines: impl Stream<Item = Result<AssignmentLine, ClientError>> + Unpin,
        asked_at: Timestamp,
        backoff: &mut Backoff,
    ) -> Broken {
        match snapshot(&mut lines).await {
            Ok(snapshot) => {
                debug!(executions = snapshot.len(), "a snapshot of what is desired");
                self.mailbox.send(Message::Input(Input::Snapshot(asked_at, snapshot))).await;
            }
            Err(broken) => return broken,
        }
        backoff.reset();
        loop {
            match next(&mut lines).await {
                Ok(AssignmentLine::Assignment(assignment)) => {
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
                Ok(AssignmentLine::Stream(request)) => self.streams.answer(request),
                Ok(AssignmentLine::Usage(request)) => self.streams.answer_usage(request),
                Ok(AssignmentLine::KeepAlive | AssignmentLine::Unknown) => {}
                Ok(AssignmentLine::Snapshot { .. }) => {
                    return Broken::Protocol("a snapshot came in the middle of the stream");
                }
                Err(broken) => return broken,
            }
        }
    }
}

/// Reads a complete snapshot or none: acting on part of one would stop wanted executions.
async fn snapshot(
    lines: &mut (impl Stream<Item = Result<AssignmentLine, ClientError>> + Unpin),
) -> Result<Vec<Assignment>, Broken> {
    let executions = loop {
        match next(lines).await? {
            AssignmentLine::Snapshot { executions } => break executions,
            AssignmentLine::KeepAlive | AssignmentLine::Unknown => {}
            AssignmentLine::Assignment(_)
            | AssignmentLine::Stream(_)
            | AssignmentLine::Usage(_) => {
                return Err(Broken::Protocol("it does not open with a snapshot"));
            }
        }
    };
    if executions > MAX_SNAPSHOT {
        return Err(Broken::Protocol("its snapshot is too large"));
    }
    let mut assignments = Vec::new();
    while (assignments.len() as u64) < executions {
        match next(lines).await? {
            AssignmentLine::Assignment(assignment) => assignments.push(*assignment),
            // A reader whose request arrives within a snapshot repeats it.
            AssignmentLine::KeepAlive
            | AssignmentLine::Stream(_)
            | AssignmentLine::Usage(_)
            | AssignmentLine::Unknown => {}
            AssignmentLine::Snapshot { .. } => {
                return Err(Broken::Protocol("a snapshot came within a snapshot"));
            }
        }
    }
    Ok(assignments)
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
    use api_types::execution::{ComputeState, DesiredState};
    use futures_util::stream;

    use super::*;
    use crate::testing::execution_id;

    fn assignment(number: u128) -> AssignmentLine {
        AssignmentLine::Assignment(Box::new(Assignment {
            execution_id: execution_id(number),
            desired_state: DesiredState::Running,
            compute_state: ComputeState::AskForBid,
            message: String::new(),
            work: None,
        }))
    }

    async fn read(lines: Vec<AssignmentLine>) -> Result<Vec<Assignment>, Broken> {
        snapshot(&mut stream::iter(lines.into_iter().map(Ok))).await
    }

    #[tokio::test]
    async fn a_snapshot_is_taken_whole_or_not_at_all() {
        let head = |executions| AssignmentLine::Snapshot { executions };
        let (silent, newer) = (AssignmentLine::KeepAlive, AssignmentLine::Unknown);
        let lines = vec![newer.clone(), head(2), assignment(1), silent, newer, assignment(2)];
        assert_eq!(read(lines).await.unwrap().len(), 2);
        assert_eq!(read(vec![head(0)]).await.unwrap(), []);
        assert!(matches!(read(vec![head(2), assignment(1)]).await, Err(Broken::Ended)));
        assert!(matches!(read(vec![assignment(1)]).await, Err(Broken::Protocol(_))));
        assert!(matches!(read(vec![head(u64::MAX)]).await, Err(Broken::Protocol(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_falls_silent_is_given_up() {
        let mut lines = stream::pending();
        assert!(matches!(next(&mut lines).await, Err(Broken::Silent)));
    }
}
