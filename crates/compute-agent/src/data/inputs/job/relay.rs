//! What other jobs published, as the orchestrator tells of it and relays it.
//!
//! The archives pass through this process as they are. The process of a fetch reads them, piece by
//! piece, and asks for the next piece when it has unpacked the last one.

use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use api_types::job_input::{InputArchiveRequest, InputResults};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::{Buf, Bytes};
use futures_util::stream::{BoxStream, StreamExt};
use tokio::sync::mpsc;

use crate::data::archive::ChunkReader;
use crate::data::handover::Handover;
use crate::data::inputs::fetcher::order::{FromFetcher, ToFetcher};
use crate::data::inputs::fetcher::parent::{Parent, unasked};
use crate::data::progress::Progress;
use crate::data::retry::AttemptError;
use agent_core::execution::Failure;

/// Pieces between the connection and the thread that unpacks.
const PIECES_AHEAD: usize = 4;

/// How long a connection may bring nothing of an archive: after that it is opened again.
const STALLED: Duration = Duration::from_secs(60);

/// Who tells of the results of other jobs.
#[derive(Debug, Clone)]
pub(crate) enum OtherJobs {
    Orchestrator {
        handover: Handover,
        /// The execution that has the inputs.
        id: ExecutionId,
    },
    #[cfg(test)]
    Test(Arc<TestJobs>),
}

/// Who passes on the archives of one input.
#[derive(Debug, Clone)]
pub(crate) enum InputRelay {
    Orchestrator {
        handover: Handover,
        id: ExecutionId,
        input: u32,
    },
    /// The agent that started this process.
    Parent(Arc<Parent>),
    #[cfg(test)]
    Test(Arc<TestJobs>),
}

/// An archive as it arrives.
pub(crate) struct Transfer(BoxStream<'static, io::Result<Bytes>>);

/// An archive as the agent passes it on.
struct FromParent {
    parent: Arc<Parent>,
    piece: Bytes,
    is_over: bool,
}

/// What the jobs of a test published.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct TestJobs {
    pub(crate) results: InputResults,
    pub(crate) archives: std::collections::BTreeMap<ExecutionId, Vec<u8>>,
    /// How often a transfer breaks off before it succeeds.
    pub(crate) broken: std::sync::Mutex<u32>,
}

// === impl OtherJobs ===

impl OtherJobs {
    /// The results that an input has, however long the orchestrator is away; the caller cancels it.
    pub(crate) async fn results(
        &self,
        input: usize,
        progress: &Progress,
    ) -> Result<InputResults, Failure> {
        match self {
            Self::Orchestrator { handover, id } => {
                let waiting = || {
                    "waits for the orchestrator, to ask it for the results of another job"
                        .to_owned()
                };
                let asking = Box::pin(handover.input_results(*id, place(input)));
                progress.during(asking, waiting).await
            }
            #[cfg(test)]
            Self::Test(jobs) => Ok(jobs.results.clone()),
        }
    }

    pub(crate) fn relay(&self, input: usize) -> InputRelay {
        match self {
            Self::Orchestrator { handover, id } => InputRelay::Orchestrator {
                handover: handover.clone(),
                id: *id,
                input: place(input),
            },
            #[cfg(test)]
            Self::Test(jobs) => InputRelay::Test(Arc::clone(jobs)),
        }
    }
}

/// A task has few inputs.
fn place(input: usize) -> u32 {
    u32::try_from(input).unwrap_or(u32::MAX)
}

// === impl InputRelay ===

impl InputRelay {
    /// Begins the archive that this execution published.
    pub(crate) async fn open(&self, published_by: ExecutionId) -> Result<Transfer, AttemptError> {
        match self {
            Self::Orchestrator { handover, id, input } => {
                let request =
                    InputArchiveRequest { execution_id: *id, input: *input, published_by };
                let download = handover.input_archive(&request).await?;
                let broken = |error| io::Error::new(io::ErrorKind::UnexpectedEof, error);
                Ok(Transfer(download.bytes.map(move |piece| piece.map_err(broken)).boxed()))
            }
            Self::Parent(_) => Err(io::Error::other("the agent passes pieces on").into()),
            #[cfg(test)]
            Self::Test(jobs) => Ok(jobs.transfer(published_by)),
        }
    }

    /// The archive that this execution published, for a thread that may block.
    pub(super) async fn reader(
        &self,
        published_by: ExecutionId,
    ) -> Result<Box<dyn Read + Send>, AttemptError> {
        if let Self::Parent(parent) = self {
            return match parent.ask(&FromFetcher::Open { published_by }).await? {
                ToFetcher::Opened => {
                    let parent = Arc::clone(parent);
                    Ok(Box::new(FromParent { parent, piece: Bytes::new(), is_over: false }))
                }
                ToFetcher::Unavailable { failure, is_transient: true } => {
                    Err(AttemptError::Transient(failure))
                }
                ToFetcher::Unavailable { failure, is_transient: false } => {
                    Err(AttemptError::Permanent(failure))
                }
                _ => Err(unasked().into()),
            };
        }
        Ok(Box::new(self.open(published_by).await?.into_reader()))
    }
}

// === impl Transfer ===

impl Transfer {
    pub(crate) fn new(pieces: BoxStream<'static, io::Result<Bytes>>) -> Self {
        Self(pieces)
    }

    pub(crate) async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            let Ok(next) = tokio::time::timeout(STALLED, self.0.next()).await else {
                let why = format!("nothing came for {} s", STALLED.as_secs());
                return Some(Err(io::Error::new(io::ErrorKind::UnexpectedEof, why)));
            };
            match next {
                // Only the end is an empty piece.
                Some(Ok(piece)) if piece.is_empty() => {}
                other => return other,
            }
        }
    }

    pub(crate) fn into_reader(mut self) -> ChunkReader {
        let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
        tokio::spawn(async move {
            while let Some(piece) = self.next().await {
                // The reader stops early when the archive was refused.
                if sender.send(piece).await.is_err() {
                    return;
                }
            }
        });
        ChunkReader::new(receiver)
    }
}

// === impl FromParent ===

impl Read for FromParent {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let unreadable = || io::Error::other("the agent sent something else than a piece");
        while self.piece.is_empty() && !self.is_over {
            self.piece = match self.parent.ask_blocking(&FromFetcher::Read)? {
                ToFetcher::Piece { base64 } => {
                    BASE64_STANDARD.decode(base64).map_err(|_| unreadable())?.into()
                }
                ToFetcher::Unavailable { failure, .. } => {
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, failure.message));
                }
                _ => return Err(unreadable()),
            };
            self.is_over = self.piece.is_empty();
        }
        let taken = buffer.len().min(self.piece.len());
        self.piece.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

// === impl TestJobs ===

#[cfg(test)]
impl TestJobs {
    fn transfer(&self, published_by: ExecutionId) -> Transfer {
        let mut archive = self.archives[&published_by].clone();
        let mut broken = self.broken.lock().unwrap();
        if *broken > 0 {
            *broken -= 1;
            archive.truncate(archive.len() / 2);
        }
        let pieces = archive.chunks(1000).map(|piece| Ok(Bytes::copy_from_slice(piece)));
        Transfer(futures_util::stream::iter(pieces.collect::<Vec<_>>()).boxed())
    }
}
