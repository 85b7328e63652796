//! Copies the output of running tasks to this node's disk as it arrives.
//!
//! An engine's own copy is lost with the container, also if another party removes it, and nothing
//! counts it while the task runs. A task that ends within half a second is not worth a second
//! connection to the engine: its output is read once, at its end. Of any other task, only the rest
//! is read then.
//!
//! Readers follow the copy, not the engine: one connection for each task, however many readers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent_core::execution::Failure;
use api_types::ExecutionId;
use futures_util::StreamExt;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::kept::{Stored, Writer};
use super::rest::Rest;
use crate::host::backoff::Backoff;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{Disk, OutputLimit};
use crate::runtime::{Executor, ExecutorError, OutputKeeping, OutputRange};

/// How long a task runs before its output is copied, unless a reader waits for it.
const BEGIN_AFTER: Duration = Duration::from_millis(500);

/// Output is written when nothing more has come for this long, so that readers get lines soon.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest that output waits to be written while more and more comes.
const WRITE_EVERY: Duration = Duration::from_millis(100);

/// Delay between attempts to write to a full or broken disk.
const RETRY_WRITE: Duration = Duration::from_secs(1);

/// Delays between attempts to read from an engine.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// What a task printed, in a failure.
const PRINTED: &str = "what it printed (stdout and stderr)";
const PRINTED_WITH_NOTES: &str =
    "what it printed (stdout and stderr), with the time of each line or part of a line,";

/// Told when the engine dropped output before it was copied.
const MISSING: &str = "part of its output is missing: it printed more than the engine keeps while \
                       the agent did not copy it";

/// The copies of the tasks that run, or whose output is being collected.
#[derive(Default)]
pub(crate) struct Copies {
    copies: Mutex<HashMap<ExecutionId, Arc<Copy>>>,
}

/// The copy of one task's output.
pub(crate) struct Copy {
    /// A reader waits for it.
    wanted: Notify,
    state: watch::Sender<Copied>,
}

/// How far a copy is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Copied {
    pub(crate) stored: Stored,
    pub(crate) progress: CopyProgress,
    is_missing_some: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum CopyProgress {
    #[default]
    Waiting,
    /// It holds less than the engine has.
    CatchingUp,
    /// It holds what the engine had a moment ago.
    UpToDate,
    /// Nothing more is copied before the output is collected.
    Stopped,
    /// It holds everything that the task printed.
    Whole,
}

/// What is copied, and until when.
pub(crate) struct Source<'a> {
    pub(crate) id: ExecutionId,
    pub(crate) executor: &'a dyn Executor,
    pub(crate) dir: &'a ExecutionDir,
    pub(crate) disk: &'a Disk,
    /// The process has ended.
    pub(crate) ended: &'a CancellationToken,
}

/// The amount of output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printed {
    pub(crate) bytes: u64,
    pub(crate) pieces: u64,
    /// What each piece takes in addition to its bytes.
    pub(crate) piece_bytes: u64,
}

/// Why a read of the engine's output ended.
enum Stopped {
    /// The process has ended.
    Ended,
    Beyond(Failure),
    /// The engine sends no more.
    Exhausted,
    Broken(ExecutorError),
}

// === impl Copies ===

impl Copies {
    /// The copy of a task that runs now.
    pub(crate) fn begin(&self, id: ExecutionId) -> Arc<Copy> {
        Arc::clone(self.copies().entry(id).or_default())
    }

    /// The copy as a reader sees it, which begins at the latest now.
    pub(crate) fn wanted(&self, id: ExecutionId) -> Option<watch::Receiver<Copied>> {
        let copies = self.copies();
        let copy = copies.get(&id)?;
        copy.wanted.notify_one();
        Some(copy.state.subscribe())
    }

    pub(crate) fn progress(&self, id: ExecutionId) -> Option<CopyProgress> {
        self.copies().get(&id).map(|copy| copy.state.borrow().progress)
    }

    /// Bytes that a task has printed, as far as they are copied.
    pub(crate) fn bytes(&self, id: ExecutionId) -> u64 {
        self.copies().get(&id).map_or(0, |copy| copy.state.borrow().stored.bytes())
    }

    /// The output was collected whole.
    pub(crate) fn is_whole(&self, id: ExecutionId) {
        let copy = self.begin(id);
        copy.state.send_modify(|copied| copied.progress = CopyProgress::Whole);
    }

    /// Why the copy is not all that the task printed, for the user.
    pub(crate) fn note(&self, id: ExecutionId) -> Option<&'static str> {
        let is_missing_some =
            self.copies().get(&id).is_some_and(|copy| copy.state.borrow().is_missing_some);
        is_missing_some.then_some(MISSING)
    }

    pub(crate) fn forget(&self, id: ExecutionId) {
        self.copies().remove(&id);
    }

    fn copies(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<Copy>>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Copy ===

impl Default for Copy {
    fn default() -> Self {
        Self { wanted: Notify::new(), state: watch::channel(Copied::default()).0 }
    }
}

impl Copy {
    /// Waits until the task has run for a while, or a reader wants its output; false if it has ended
    /// before.
    pub(crate) async fn is_due(&self, ended: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = ended.cancelled() => false,
            () = self.wanted.notified() => true,
            () = tokio::time::sleep(BEGIN_AFTER) => true,
        }
    }

    /// Copies until the process has ended, and then writes what it has. Returns earlier with the
    /// failure of a task that printed more than its limit.
    pub(crate) async fn run(&self, source: &Source<'_>, limit: OutputLimit) -> Option<Failure> {
        let failure = self.run_inner(source, limit).await;
        self.state.send_modify(|copied| copied.progress = CopyProgress::Stopped);
        failure
    }

    async fn run_inner(&self, source: &Source<'_>, limit: OutputLimit) -> Option<Failure> {
        let mut writer = match Writer::open(source.dir, source.disk).await {
            Ok(writer) => writer,
            Err(error) => {
                warn!(execution = %source.id, %error, "cannot copy the output of a running task");
                return None;
            }
        };
        self.publish(&writer, CopyProgress::CatchingUp);
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let stopped = self.follow(source, &mut writer, limit).await;
            self.write(source, &mut writer).await;
            match stopped {
                Stopped::Ended => return None,
                Stopped::Beyond(failure) => return Some(failure),
                Stopped::Exhausted => {}
                Stopped::Broken(error) => {
                    debug!(execution = %source.id, %error, "cannot follow the output of a task");
                }
            }
            source.ended.run_until_cancelled(backoff.wait()).await?;
        }
    }

    /// Copies on one connection.
    async fn follow(
        &self,
        source: &Source<'_>,
        writer: &mut Writer,
        limit: OutputLimit,
    ) -> Stopped {
        let OutputKeeping::WithEngine { piece_bytes } = source.executor.output_keeping() else {
            source.ended.cancelled().await;
            return Stopped::Ended;
        };
        let mut rest = Rest::after(&writer.with_gathered(), true);
        let range = OutputRange { follow: true, since: rest.since() };
        let mut chunks = source.executor.logs(source.id, range);
        let mut ended = std::pin::pin!(source.ended.cancelled());
        let (mut written_at, mut is_current) = (Instant::now(), false);
        loop {
            let chunk = tokio::select! {
                biased;
                () = &mut ended => return Stopped::Ended,
                next = chunks.next() => match next {
                    Some(Ok(chunk)) => chunk,
                    Some(Err(error)) => return Stopped::Broken(error),
                    None => return Stopped::Exhausted,
                },
                () = tokio::time::sleep(PAUSE), if !is_current => {
                    self.write(source, writer).await;
                    self.publish(writer, CopyProgress::UpToDate);
                    is_current = true;
                    continue;
                }
            };
            let (chunk, is_missing) = rest.pass(chunk);
            if is_missing {
                warn!(execution = %source.id, MISSING);
                self.state.send_modify(|copied| copied.is_missing_some = true);
            }
            let Some(chunk) = chunk else { continue };
            let printed = Printed::with(&writer.with_gathered(), piece_bytes).and(&chunk.bytes);
            if let Some(failure) = printed.beyond(&limit) {
                return Stopped::Beyond(failure);
            }
            if is_current {
                (written_at, is_current) = (Instant::now(), false);
            }
            match writer.gather(&chunk) {
                Err(error) => return Stopped::Broken(lost(&error)),
                Ok(is_enough) if is_enough || written_at.elapsed() >= WRITE_EVERY => {
                    self.write(source, writer).await;
                    written_at = Instant::now();
                }
                Ok(_) => {}
            }
        }
    }

    /// Writes what is gathered, however long that takes while the task runs: what cannot be written
    /// is not read either, and waits with the engine. What is left is collected at the end.
    async fn write(&self, source: &Source<'_>, writer: &mut Writer) {
        let mut is_told = false;
        while let Err(error) = writer.write().await {
            if !std::mem::replace(&mut is_told, true) {
                warn!(execution = %source.id, %error, "cannot store output; retrying");
            }
            let pause = tokio::time::sleep(RETRY_WRITE);
            if source.ended.run_until_cancelled(pause).await.is_none() {
                return;
            }
        }
        let progress = self.state.borrow().progress;
        self.publish(writer, progress);
    }

    fn publish(&self, writer: &Writer, progress: CopyProgress) {
        let stored = writer.stored();
        self.state.send_if_modified(|copied| {
            let is_news = copied.stored != stored || copied.progress != progress;
            (copied.stored, copied.progress) = (stored, progress);
            is_news
        });
    }
}

fn lost(error: &std::io::Error) -> ExecutorError {
    ExecutorError::OutputLost { reason: error.to_string() }
}

// === impl Printed ===

impl Printed {
    pub(crate) fn with(stored: &Stored, piece_bytes: u64) -> Self {
        Self { bytes: stored.bytes(), pieces: stored.records, piece_bytes }
    }

    /// One more piece.
    pub(crate) fn and(self, piece: &[u8]) -> Self {
        Self { bytes: self.bytes + piece.len() as u64, pieces: self.pieces + 1, ..self }
    }

    /// What it takes on a disk.
    fn disk_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.pieces.saturating_mul(self.piece_bytes))
    }

    /// Whether all of it may be stored.
    pub(crate) fn fits(&self, limit: &OutputLimit) -> bool {
        self.disk_bytes() <= limit.left_after(0)
    }

    /// Why a task that printed this much has failed; none while it is within its limit.
    pub(crate) fn beyond(&self, limit: &OutputLimit) -> Option<Failure> {
        let text = |bytes| api_types::quantity::Bytes(bytes).to_string();
        if self.fits(limit) {
            None
        } else if self.bytes > limit.left_after(0) {
            Some(limit.beyond(PRINTED, &text(self.bytes)))
        } else {
            Some(limit.beyond(PRINTED_WITH_NOTES, &text(self.disk_bytes())))
        }
    }
}

#[cfg(test)]
mod tests;
