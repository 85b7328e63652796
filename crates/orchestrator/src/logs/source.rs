//! The output of one execution, from its node while the node has it, from the record afterwards.
//!
//! The position in each stream is kept here: after a broken connection, the node, or a restarted
//! agent on it, resumes from that position, without a gap or a repeat.

use std::sync::Arc;
use std::time::Duration;

use api_types::execution::ComputeState;
use api_types::log::{LogFrame, LogOutput, LogPosition, StreamRequest};
use api_types::node::Connection;
use api_types::protocol::AssignmentLine;
use api_types::{ExecutionId, NodeId};
use control_plane::store::StoredExecution;
use tokio::sync::watch;

use super::item::{Item, LogOptions, Piece};
use super::record;
use super::relay::{Answer, NotAsked};
use super::service::LogService;
use crate::reads::{AskedBy, ReadError};
use crate::shares::{Owner, Refused};

/// How long a connected node may take to begin its answer; then it counts as disconnected.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Poll interval for an execution that has nothing to read: its node may reconnect, or the
/// execution may start or end. A commit or a connecting node triggers an earlier poll.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Delay after a wake-up: where there are many commits, the next is near.
const POLL_PAUSE: Duration = Duration::from_millis(200);

/// Repeated failures are retried every five seconds.
const MOST_PAUSES: u32 = 25;

/// Consecutive answers without output before a reader that does not follow gets the node's failure.
const MAX_TRIES: u32 = 5;

pub(super) struct Source {
    service: Arc<LogService>,
    id: ExecutionId,
    /// Of its slot; 0 until its record was read.
    index: u32,
    options: LogOptions,
    /// The next position in each stream; `None` until the node has reported where the output
    /// begins.
    position: Option<LogPosition>,
    stage: Stage,
    trouble: Trouble,
    commits: watch::Receiver<u64>,
    attached: watch::Receiver<u64>,
}

enum Stage {
    /// Determines what can be read.
    Searching,
    Reading(Answer),
    /// The rest of the output.
    Remaining(std::vec::IntoIter<Item>),
}

/// The last failure since output arrived.
#[derive(Default)]
struct Trouble {
    times: u32,
    reason: String,
    /// The node reported that it has nothing.
    is_absent: bool,
}

// === impl Source ===

impl Source {
    /// Begins at `position`, if the reader has what is before.
    pub(super) fn new(
        service: &Arc<LogService>,
        id: ExecutionId,
        options: LogOptions,
        position: Option<LogPosition>,
    ) -> Self {
        Self {
            service: Arc::clone(service),
            id,
            index: 0,
            options,
            position,
            stage: Stage::Searching,
            trouble: Trouble::default(),
            commits: service.view.feed().last_seq(),
            attached: service.relay.attached(),
        }
    }

    /// Of the slot that the execution fills, once its record was read.
    pub(super) fn index(&self) -> u32 {
        self.index
    }

    pub(super) async fn next(&mut self) -> Option<Item> {
        loop {
            match &mut self.stage {
                Stage::Remaining(rest) => return rest.next(),
                Stage::Searching => self.stage = self.search().await,
                Stage::Reading(answer) => match answer.next().await {
                    Some(frames) => {
                        if let Some(item) = self.take(frames) {
                            return Some(item);
                        }
                    }
                    None => self.search_again("the connection from its node broke", false),
                },
            }
        }
    }

    /// Determines what can be read, and waits if there is nothing yet.
    async fn search(&mut self) -> Stage {
        tokio::time::sleep(POLL_PAUSE * self.trouble.times.min(MOST_PAUSES)).await;
        let id = self.id;
        let stored =
            self.service.reader.run(AskedBy::User, move |reads| Ok(reads.execution(id)?)).await;
        let stored: StoredExecution = match stored {
            Ok(Some(stored)) => stored,
            Ok(None) => return Stage::over(),
            Err::<_, ReadError>(error) => {
                tracing::warn!(%error, execution = %id, "cannot read the store for a log reader");
                return Stage::missing("the state database is not available".to_owned());
            }
        };
        self.index = stored.row.index;
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
        if !(is_over && gave_up) {
            match self.ask(stored.row.node).await {
                Ok(Some(answer)) => return Stage::Reading(answer),
                Ok(None) => {}
                Err(refused) => {
                    let (times, reason) = (self.trouble.times + 1, refused.to_string());
                    self.trouble = Trouble { times, reason, is_absent: false };
                    return Stage::Searching;
                }
            }
        }
        if is_over {
            return Stage::remaining(self.left_behind(&stored).await);
        }
        let reason = match self.trouble.reason.as_str() {
            "" => "its node, which holds the output, is not connected".to_owned(),
            reason => reason.to_owned(),
        };
        self.wait_or(Stage::missing(reason)).await
    }

    /// A follower waits for a change; for others, this is the end.
    async fn wait_or(&mut self, end: Stage) -> Stage {
        if !self.options.follow {
            return end;
        }
        tokio::select! {
            // Both senders live as long as the service.
            _ = self.commits.changed() => {}
            _ = self.attached.changed() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
        tokio::time::sleep(POLL_PAUSE).await;
        Stage::Searching
    }

    /// `None` when the node is disconnected or does not answer; refused when the reader has as many
    /// streams of it as it may have.
    async fn ask(&mut self, node: NodeId) -> Result<Option<Answer>, Refused> {
        let Some(record) = self.service.view.node(node) else { return Ok(None) };
        if record.connection != Connection::Connected
            || (!self.options.follow && self.trouble.times >= MAX_TRIES)
        {
            return Ok(None);
        }
        let LogOptions { order: _, follow, tail, stream } = self.options;
        let (execution_id, from) = (self.id, self.position);
        let asked = self.service.relay.read(node, &Owner::current(), |stream_id| {
            AssignmentLine::Stream(StreamRequest {
                stream_id,
                execution_id,
                follow,
                tail: tail.filter(|_| from.is_none()),
                stream,
                from,
                archive: None,
            })
        });
        let mut answer = match asked {
            Ok(answer) => answer,
            Err(NotAsked::Unreachable) => return Ok(None),
            Err(NotAsked::Refused(refused)) => return Err(refused),
        };
        let begun = tokio::time::timeout(ANSWER_TIMEOUT, answer.next()).await;
        Ok(begun.ok().flatten().map(|_| answer))
    }

    fn take(&mut self, frames: Vec<LogFrame>) -> Option<Item> {
        let mut pieces = Vec::new();
        for frame in frames {
            match frame {
                LogFrame::Begin(position) => self.position = Some(position),
                LogFrame::Output(output) => match self.piece(output) {
                    Ok(piece) => pieces.push(piece),
                    Err(reason) => self.search_again(reason, false),
                },
                LogFrame::End => self.stage = Stage::over(),
                LogFrame::Absent => self.search_again("its node has no output of it", true),
                LogFrame::Failed { message } => self.search_again(&message, false),
                LogFrame::KeepAlive
                | LogFrame::Archive(_)
                | LogFrame::Content { .. }
                | LogFrame::Usage { .. }
                | LogFrame::NodeUsage { .. }
                | LogFrame::Unknown => {}
            }
        }
        if pieces.is_empty() {
            return None;
        }
        self.trouble.times = 0;
        Some(Item::Output(pieces))
    }

    fn piece(&mut self, output: LogOutput) -> Result<Piece, &'static str> {
        let LogOutput { stream, time, data } = output;
        let bytes = data.into_bytes().ok_or("its node sent an invalid frame")?;
        let position = self.position.as_mut().ok_or("its node did not say where it begins")?;
        let offset = position.offset(stream);
        *position.offset_mut(stream) += bytes.len() as u64;
        Ok(Piece { stream, time, offset, bytes })
    }

    fn search_again(&mut self, reason: &str, is_absent: bool) {
        let times = self.trouble.times + 1;
        self.trouble = Trouble { times, reason: reason.to_owned(), is_absent };
        self.stage = Stage::Searching;
    }

    async fn left_behind(&self, stored: &StoredExecution) -> Vec<Item> {
        let id = self.id;
        let tail =
            self.service.reader.run(AskedBy::User, move |reads| Ok(reads.output_tail(id)?)).await;
        let tail = tail.unwrap_or_else(|error: ReadError| {
            tracing::warn!(%error, execution = %id, "cannot read the end of an output");
            None
        });
        let connection = self.service.view.node(stored.row.node).map(|node| node.connection);
        let why = match (&*self.trouble.reason, connection) {
            ("", Some(Connection::Connected)) => "its node does not answer",
            ("", Some(Connection::Disconnected)) => "its node is not connected",
            ("", None) => "its node is gone",
            (reason, _) => reason,
        };
        record::left_behind(stored, tail, self.options, self.position, why)
    }
}

// === impl Stage ===

impl Stage {
    fn over() -> Self {
        Self::remaining(Vec::new())
    }

    fn missing(reason: String) -> Self {
        Self::remaining(vec![Item::Missing(reason)])
    }

    fn remaining(rest: Vec<Item>) -> Self {
        Self::Remaining(rest.into_iter())
    }
}
