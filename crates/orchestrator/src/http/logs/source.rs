//! The output of one execution, from its node while the node has it, from the record after that.
//!
//! The position in each stream is kept here: when a connection breaks off, the node, or the agent
//! that was started anew on it, is asked for what comes after, without a gap or a repeat.

use std::sync::Arc;
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::log::{LogFrame, LogOutput, LogPosition, LogStream, StreamRequest};
use api_types::node::Connection;
use api_types::{ExecutionId, NodeId, Timestamp};
use tokio::sync::watch;

use super::record;
use super::relay::Answer;
use crate::http::Api;
use crate::store::StoredExecution;

/// How long a connected node may take to begin its answer; then it counts as away.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks at an execution that has nothing to read: its node may come back, or it may
/// begin or end. A commit or a node that comes wakes the look earlier.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// After whatever woke a look: the next commit is not far where there are many.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// What goes wrong again and again is tried every five seconds.
const MOST_PAUSES: u32 = 25;

/// So many times in a row an answer may break off without having brought anything, until the
/// reader of what is there now is told so.
const MAX_TRIES: u32 = 5;

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) follow: bool,
    pub(super) tail: Option<u64>,
    pub(super) stream: Option<LogStream>,
}

/// A piece of output, however it is cut.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) stream: LogStream,
    pub(super) time: Timestamp,
    pub(super) bytes: Vec<u8>,
}

/// What a reader is told.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Output(Vec<Piece>),
    /// Something to know about the output, in words for the user.
    Remark(String),
    /// The output is not complete; why.
    Missing(String),
}

pub(super) struct Source {
    api: Arc<Api>,
    id: ExecutionId,
    asked: Asked,
    /// What comes next in each stream; none until the node said where it begins.
    position: Option<LogPosition>,
    stage: Stage,
    trouble: Trouble,
    commits: watch::Receiver<u64>,
    attached: watch::Receiver<u64>,
}

enum Stage {
    /// What can be read has to be found out.
    Looking,
    Reading(Answer),
    /// This is the rest.
    Telling(std::vec::IntoIter<Said>),
}

/// What went wrong since output came last.
#[derive(Default)]
struct Trouble {
    times: u32,
    reason: String,
    /// The node said that it has nothing.
    is_absent: bool,
}

// === impl Source ===

impl Source {
    pub(super) fn new(api: &Arc<Api>, id: ExecutionId, asked: Asked) -> Self {
        Self {
            api: Arc::clone(api),
            id,
            asked,
            position: None,
            stage: Stage::Looking,
            trouble: Trouble::default(),
            commits: api.view.feed().last_seq(),
            attached: api.relay.attached(),
        }
    }

    pub(super) async fn next(&mut self) -> Option<Said> {
        loop {
            match &mut self.stage {
                Stage::Telling(rest) => return rest.next(),
                Stage::Looking => self.stage = self.look().await,
                Stage::Reading(answer) => match answer.next().await {
                    Some(frames) => {
                        if let Some(said) = self.take(frames) {
                            return Some(said);
                        }
                    }
                    None => self.find_anew("the connection of its node broke off", false),
                },
            }
        }
    }

    /// Finds out what can be read; waits where there is nothing yet.
    async fn look(&mut self) -> Stage {
        tokio::time::sleep(LOOK_PAUSE * self.trouble.times.min(MOST_PAUSES)).await;
        let id = self.id;
        let stored = match self.api.reader.run(move |reads| Ok(reads.execution(id)?)).await {
            Ok(Some(stored)) => stored,
            Ok(None) => return Stage::over(),
            Err(failure) => {
                tracing::warn!(?failure, execution = %id, "a log reader cannot read the store");
                return Stage::missing("the state database is not available".to_owned());
            }
        };
        let is_over = match stored.row.compute {
            ComputeState::AskForBidRejected | ComputeState::BidRejected => return Stage::over(),
            ComputeState::Undefined
            | ComputeState::New
            | ComputeState::AskForBid
            | ComputeState::AskForBidAccepted => return self.wait_or(Stage::over()).await,
            ComputeState::BidAccepted => false,
            ComputeState::Completed | ComputeState::Failed | ComputeState::Cancelled => true,
        };
        let gave_up = self.trouble.times >= MAX_TRIES || self.trouble.is_absent;
        if !(is_over && gave_up)
            && let Some(answer) = self.ask(stored.row.node).await
        {
            return Stage::Reading(answer);
        }
        if is_over {
            return Stage::telling(self.left_behind(&stored));
        }
        let node = stored.row.node;
        let reason = match self.trouble.reason.as_str() {
            "" => format!("node {node}, which has the output, is not connected"),
            reason => reason.to_owned(),
        };
        self.wait_or(Stage::missing(reason)).await
    }

    /// Who follows waits until something has changed; for who does not, this is the end.
    async fn wait_or(&mut self, end: Stage) -> Stage {
        if !self.asked.follow {
            return end;
        }
        tokio::select! {
            // Both senders live as long as the service.
            _ = self.commits.changed() => {}
            _ = self.attached.changed() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        tokio::time::sleep(LOOK_PAUSE).await;
        Stage::Looking
    }

    /// None when the node is away, or does not answer.
    async fn ask(&mut self, node: NodeId) -> Option<Answer> {
        let record = self.api.view.node(node)?;
        if record.connection != Connection::Connected
            || (!self.asked.follow && self.trouble.times >= MAX_TRIES)
        {
            return None;
        }
        let Asked { follow, tail, stream } = self.asked;
        let (execution_id, from) = (self.id, self.position);
        let mut answer = self.api.relay.ask(node, |stream_id| StreamRequest {
            stream_id,
            execution_id,
            follow,
            tail: tail.filter(|_| from.is_none()),
            stream,
            from,
        })?;
        tokio::time::timeout(ANSWER_TIMEOUT, answer.next()).await.ok()??;
        Some(answer)
    }

    fn take(&mut self, frames: Vec<LogFrame>) -> Option<Said> {
        let mut pieces = Vec::new();
        for frame in frames {
            match frame {
                LogFrame::Begin(position) => self.position = Some(position),
                LogFrame::Output(output) => match self.piece(output) {
                    Ok(piece) => pieces.push(piece),
                    Err(reason) => self.find_anew(reason, false),
                },
                LogFrame::End => self.stage = Stage::over(),
                LogFrame::Absent => self.find_anew("its node has nothing of it", true),
                LogFrame::Failed { message } => self.find_anew(&message, false),
                LogFrame::KeepAlive | LogFrame::Unknown => {}
            }
        }
        if pieces.is_empty() {
            return None;
        }
        self.trouble.times = 0;
        Some(Said::Output(pieces))
    }

    fn piece(&mut self, output: LogOutput) -> Result<Piece, &'static str> {
        let LogOutput { stream, time, data } = output;
        let bytes = data.into_bytes().ok_or("its node sent what is no output")?;
        let position = self.position.as_mut().ok_or("its node did not say where it begins")?;
        *position.of_mut(stream) += bytes.len() as u64;
        Ok(Piece { stream, time, bytes })
    }

    fn find_anew(&mut self, reason: &str, is_absent: bool) {
        let times = self.trouble.times + 1;
        self.trouble = Trouble { times, reason: reason.to_owned(), is_absent };
        self.stage = Stage::Looking;
    }

    fn left_behind(&self, stored: &StoredExecution) -> Vec<Said> {
        let connection = self.api.view.node(stored.row.node).map(|node| node.connection);
        let why = match (&*self.trouble.reason, connection) {
            ("", Some(Connection::Connected)) => "its node does not answer",
            ("", Some(Connection::Disconnected)) => "its node is not connected",
            ("", None) => "its node is gone",
            (reason, _) => reason,
        };
        record::left_behind(stored, self.asked, self.position, why)
    }
}

// === impl Stage ===

impl Stage {
    fn over() -> Self {
        Self::telling(Vec::new())
    }

    fn missing(reason: String) -> Self {
        Self::telling(vec![Said::Missing(reason)])
    }

    fn telling(rest: Vec<Said>) -> Self {
        Self::Telling(rest.into_iter())
    }
}
