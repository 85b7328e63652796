//! Published archives, fetched from the nodes that hold them as output is: over a connection that the
//! node opens, and only as fast as the reader reads.

use std::collections::VecDeque;
use std::time::Duration;

use api_types::log::{ArchiveHead, ArchiveRequest, LogFrame, StreamRequest};
use api_types::protocol::AssignmentLine;
use api_types::{ExecutionId, NodeId};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

use super::relay::{Answer, NotAsked};
use super::service::LogService;
use crate::shares::{Owner, Refused};

/// How long a node may take to connect; after that it counts as disconnected.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// An archive that a node sends, or one file of it.
pub(crate) struct Archive {
    pub(crate) head: ArchiveHead,
    answer: Answer,
    frames: VecDeque<LogFrame>,
    /// Bytes that have not come yet.
    left: u64,
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoArchive {
    /// The node is not connected, or its release knows no such request.
    Unreachable,
    /// The node has no such archive or file.
    Absent,
    Failed(String),
    /// The reader has as many streams of the node as it may have.
    Refused(Refused),
}

/// An archive that ends early.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Incomplete(String);

// === impl LogService ===

impl LogService {
    /// Asks the node for what the execution published there.
    pub(crate) async fn archive(
        &self,
        node: NodeId,
        execution_id: ExecutionId,
        request: ArchiveRequest,
    ) -> Result<Archive, NoArchive> {
        let request = |stream_id| {
            AssignmentLine::Stream(StreamRequest {
                stream_id,
                execution_id,
                follow: false,
                tail: None,
                stream: None,
                from: None,
                archive: Some(request),
            })
        };
        let asked = self.relay.read(node, &Owner::current(), request);
        let mut answer = asked.map_err(|not_asked| match not_asked {
            NotAsked::Unreachable => NoArchive::Unreachable,
            NotAsked::Refused(refused) => NoArchive::Refused(refused),
        })?;
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, answer.next()).await;
        let mut frames = connected.ok().flatten().ok_or(NoArchive::Unreachable)?;
        loop {
            let mut frames_left = frames.into_iter();
            while let Some(frame) = frames_left.next() {
                match frame {
                    LogFrame::Archive(head) => {
                        let (left, frames) = (head.length, frames_left.collect());
                        return Ok(Archive { head, answer, frames, left });
                    }
                    LogFrame::Absent => return Err(NoArchive::Absent),
                    LogFrame::Failed { message } => return Err(NoArchive::Failed(message)),
                    LogFrame::KeepAlive | LogFrame::Unknown => {}
                    // An agent of an older release sends output instead.
                    LogFrame::Begin(_)
                    | LogFrame::Output(_)
                    | LogFrame::Content { .. }
                    | LogFrame::Usage { .. }
                    | LogFrame::NodeUsage { .. }
                    | LogFrame::End => return Err(NoArchive::Unreachable),
                }
            }
            // Silence ends the node's connection.
            frames = answer.next().await.ok_or(NoArchive::Unreachable)?;
        }
    }
}

// === impl Archive ===

impl Archive {
    /// The next bytes, or `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Result<Bytes, Incomplete>> {
        let incomplete = |reason: &str| Some(Err(Incomplete(reason.to_owned())));
        loop {
            let Some(frame) = self.frames.pop_front() else {
                match self.answer.next().await {
                    Some(frames) => self.frames.extend(frames),
                    None if self.left == 0 => return None,
                    None => return incomplete("the node's connection broke"),
                }
                continue;
            };
            match frame {
                LogFrame::Content { base64 } => {
                    let bytes = STANDARD.decode(base64).unwrap_or_default();
                    let length = bytes.len() as u64;
                    if length == 0 || length > self.left {
                        return incomplete("the node sent something else than it announced");
                    }
                    self.left -= length;
                    return Some(Ok(bytes.into()));
                }
                LogFrame::End if self.left == 0 => return None,
                LogFrame::KeepAlive | LogFrame::Unknown => {}
                LogFrame::Failed { message } => return incomplete(&message),
                LogFrame::End
                | LogFrame::Absent
                | LogFrame::Archive(_)
                | LogFrame::Usage { .. }
                | LogFrame::NodeUsage { .. }
                | LogFrame::Begin(_)
                | LogFrame::Output(_) => return incomplete("the node sent less than it announced"),
            }
        }
    }
}
