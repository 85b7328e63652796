//! The output of a task: from this node's disk, or from an engine that keeps it on this node until
//! it is collected.
//!
//! A reader may start anywhere: positions count the bytes of each stream from its start, and are
//! the same for the engine and the disk. A reader can therefore move from the engine to the disk,
//! and resume after a broken connection, without a gap or a repetition.
//!
//! A slow reader blocks only itself: what it has not read yet waits in files.

pub(crate) mod copies;
mod cut;
mod generator;
pub(crate) mod kept;
mod last_lines;
pub(crate) mod rest;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use agent_core::node_state::Matches;
use api_types::ExecutionId;
use api_types::engine::EngineType;
use api_types::id::IdPrefix;
use api_types::log::{LogPosition, LogStream};
use futures_util::stream::{Stream, StreamExt};
use tokio::sync::watch;
use tracing::debug;

use crate::host::data_dir::ExecutionDirs;
use crate::node::effects::Files;
use crate::node::mailbox::Mailbox;
use crate::runtime::registry::Engines;
use crate::runtime::{ExecutorError, OutputChunk, OutputKeeping, OutputRange};
use copies::{Copied, Copies, CopyProgress};
use cut::Cut;
use generator::{Out, generate};
use kept::{Start, Stored};
use last_lines::LastLines;

/// How long a reader that does not follow waits for the copy of a running task to catch up.
const CATCH_UP: Duration = Duration::from_secs(1);

/// Interval at which a following reader checks whether the task has started, or its output was
/// collected.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Consecutive failures of the engine that a reader without `follow` tolerates: a task may end,
/// and its output move from the engine to the disk, during a read.
const MAX_TRIES: u32 = 5;

/// Reads the output of this node's executions.
pub(crate) struct Outputs {
    engines: Arc<Engines>,
    mailbox: Mailbox,
    dirs: ExecutionDirs,
    copies: Arc<Copies>,
}

/// Selects a part of an execution's output.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) id: ExecutionId,
    /// Continues until the execution ends.
    pub(crate) follow: bool,
    /// Both when none.
    pub(crate) stream: Option<LogStream>,
    pub(crate) begin: Begin,
}

/// The start of the selection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begin {
    At(LogPosition),
    /// This many lines before the current end.
    Tail(u64),
}

/// The items of a reader: `Begin` first, then the rest.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Begin(LogPosition),
    Chunk(OutputChunk),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("the node has no record of this execution")]
    Absent,
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error("cannot read the output on the node's disk")]
    Disk(#[from] io::Error),
    #[error("the agent is stopping")]
    Stopping,
}

/// The current location of the output.
enum OutputLocation {
    /// The task has not started.
    NotStarted,
    /// The task runs and may print more.
    Running(EngineType),
    /// The same; the agent copies its output.
    Copied(Option<watch::Receiver<Copied>>),
    /// The task has ended and prints no more.
    Ended(EngineType),
    /// The same; part of its output is copied, and the rest is about to be.
    Completing,
    Disk,
}

/// One reader and its position.
struct Reading {
    outputs: Arc<Outputs>,
    wanted: Wanted,
    out: Out<Result<Output, OutputError>>,
    /// The next position; none until `Begin` was sent.
    position: Option<LogPosition>,
}

// === impl Outputs ===

impl Outputs {
    pub(crate) fn new(engines: &Arc<Engines>, mailbox: &Mailbox, files: &Files) -> Arc<Self> {
        let (engines, mailbox) = (Arc::clone(engines), mailbox.clone());
        let (dirs, copies) = (files.dirs.clone(), Arc::clone(&files.copies));
        Arc::new(Self { engines, mailbox, dirs, copies })
    }

    /// Ends after the selected output; an error is the last item.
    pub(crate) fn read(
        self: &Arc<Self>,
        wanted: Wanted,
    ) -> impl Stream<Item = Result<Output, OutputError>> + Send + use<> {
        let outputs = Arc::clone(self);
        generate(|out| async move {
            let mut reading = Reading { outputs, wanted, out, position: None };
            if let Err(error) = reading.read_whole().await {
                reading.out.send(Err(error)).await;
            }
        })
    }

    async fn location(&self, id: ExecutionId) -> Result<OutputLocation, OutputError> {
        let exactly = IdPrefix { low: id.uuid(), high: id.uuid() };
        match self.mailbox.find(exactly).await.map_err(|_| OutputError::Stopping)? {
            Matches::None => Err(OutputError::Absent),
            Matches::One { local, engine } => Ok(match local.phase.as_str() {
                "Accepted" | "Preparing" | "Withdrawing" | "Starting" => OutputLocation::NotStarted,
                "Running" | "Stopping" if self.is_copied(engine) => {
                    OutputLocation::Copied(self.copies.wanted(id))
                }
                "Running" | "Stopping" => OutputLocation::Running(engine),
                "Collecting" if self.is_copied(engine) => self.completing(id, engine),
                "Collecting" => OutputLocation::Ended(engine),
                _ => OutputLocation::Disk,
            }),
            Matches::Many(ids) => unreachable_many(&ids),
        }
    }

    fn is_copied(&self, engine: EngineType) -> bool {
        self.engines.get(engine).is_some_and(|executor| {
            matches!(executor.output_keeping(), OutputKeeping::WithEngine { .. })
        })
    }

    /// Where the output of a task is that has ended, and whose output is being collected.
    fn completing(&self, id: ExecutionId, engine: EngineType) -> OutputLocation {
        match self.copies.progress(id) {
            Some(CopyProgress::Whole) => OutputLocation::Disk,
            // It ended soon: nothing was copied.
            _ if !self.dirs.for_execution(id).output_index().exists() => {
                OutputLocation::Ended(engine)
            }
            _ => OutputLocation::Completing,
        }
    }
}

/// Whether more may be copied.
fn has_more(progress: CopyProgress) -> bool {
    match progress {
        CopyProgress::Waiting | CopyProgress::CatchingUp | CopyProgress::UpToDate => true,
        CopyProgress::Stopped | CopyProgress::Whole => false,
    }
}

/// The agent is about to copy the output, or the rest of it.
fn not_copied_yet() -> OutputError {
    let reason = "the agent has not copied the output yet".to_owned();
    OutputError::Executor(ExecutorError::Unreachable { engine: "its node", reason })
}

fn unreachable_many(ids: &[ExecutionId]) -> ! {
    panic!("one full id named {} executions of the table, whose keys are ids", ids.len())
}

// === impl Reading ===

impl Reading {
    async fn read_whole(&mut self) -> Result<(), OutputError> {
        let mut tries = 0;
        loop {
            let place = self.outputs.location(self.wanted.id).await?;
            // The end of the task may cut off a read that started while it ran; a read after the
            // end is complete.
            let (is_all, read) = match place {
                OutputLocation::NotStarted => (false, Ok::<(), OutputError>(())),
                OutputLocation::Running(engine) => {
                    (false, self.read_engine(engine, true).await.map_err(OutputError::from))
                }
                OutputLocation::Copied(None) => (false, Err(not_copied_yet())),
                OutputLocation::Copied(Some(copied)) => (false, self.read_copy(copied).await),
                OutputLocation::Completing => (false, Err(not_copied_yet())),
                OutputLocation::Ended(engine) => {
                    (true, self.read_engine(engine, false).await.map_err(OutputError::from))
                }
                OutputLocation::Disk => {
                    self.read_disk(None).await?;
                    (true, Ok(()))
                }
            };
            match read {
                Ok(()) if is_all || !self.wanted.follow => return self.begin_at_last().await,
                Ok(()) => {}
                // The output moved to the disk, or the engine is unreachable, which a task
                // survives.
                Err(OutputError::Executor(
                    error @ (ExecutorError::Gone | ExecutorError::Unreachable { .. }),
                )) => {
                    tries += 1;
                    if tries >= MAX_TRIES && !self.wanted.follow {
                        return Err(error.into());
                    }
                    debug!(execution = %self.wanted.id, %error, "retrying to read output");
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// A complete read has begun, even if the output is empty.
    async fn begin_at_last(&mut self) -> Result<(), OutputError> {
        if self.position.is_none() {
            self.begin(LogPosition::default()).await;
        }
        Ok(())
    }

    async fn begin(&mut self, position: LogPosition) {
        self.position = Some(position);
        self.out.send(Ok(Output::Begin(position))).await;
    }

    async fn read_engine(
        &mut self,
        engine: EngineType,
        may_print_more: bool,
    ) -> Result<(), ExecutorError> {
        let outputs = Arc::clone(&self.outputs);
        let Some(executor) = outputs.engines.get(engine) else {
            return Err(ExecutorError::Unreachable {
                engine: "it",
                reason: format!("engine '{engine}' was removed from this node's settings"),
            });
        };
        let follow = self.wanted.follow && may_print_more;
        let mut cut = match (self.position, self.wanted.begin) {
            (Some(position), _) => Cut::after_bytes(position),
            (None, Begin::At(position)) => {
                self.begin(position).await;
                Cut::after_bytes(position)
            }
            (None, Begin::Tail(count)) => {
                let mut last = LastLines::new(count);
                let mut chunks = executor.logs(self.wanted.id, OutputRange::default());
                while let Some(chunk) = chunks.next().await {
                    if let Some(chunk) = self.only(chunk?) {
                        last.pass(chunk);
                    }
                }
                match last.end() {
                    Ok((position, lines)) => {
                        let position = self.give(position, lines).await;
                        if !follow {
                            return Ok(());
                        }
                        Cut::after_bytes(position)
                    }
                    Err(cut) => cut,
                }
            }
        };
        let mut chunks =
            executor.logs(self.wanted.id, OutputRange { follow, ..OutputRange::default() });
        while let Some(chunk) = chunks.next().await {
            self.take(&mut cut, chunk?).await;
        }
        Ok(())
    }

    /// Reads the copy of a running task, and follows it until nothing more is copied.
    async fn read_copy(&mut self, mut copied: watch::Receiver<Copied>) -> Result<(), OutputError> {
        let has_caught_up = |copied: &Copied| match copied.progress {
            CopyProgress::Waiting | CopyProgress::CatchingUp => false,
            CopyProgress::UpToDate | CopyProgress::Stopped | CopyProgress::Whole => true,
        };
        // Where the last lines begin is known only then; any other reader begins with what is there.
        let is_hasty = self.wanted.follow && matches!(self.wanted.begin, Begin::At(_));
        if !is_hasty {
            drop(tokio::time::timeout(CATCH_UP, copied.wait_for(has_caught_up)).await);
        }
        let mut reading = None;
        loop {
            let now = *copied.borrow_and_update();
            match &mut reading {
                None => reading = self.read_disk(Some(now.stored)).await?,
                Some((reader, cut)) => {
                    reader.extend_to(now.stored);
                    self.pass_on(reader, cut).await?;
                }
            }
            // There were no lines yet: the last ones are all that come.
            if self.position.is_none() {
                self.begin(LogPosition::default()).await;
            }
            if !self.wanted.follow || !has_more(now.progress) || copied.changed().await.is_err() {
                return Ok(());
            }
        }
    }

    /// Reads what is stored, or this part of it. Returns what reads on, if there was anything.
    async fn read_disk(
        &mut self,
        stored: Option<Stored>,
    ) -> io::Result<Option<(kept::Reader, Cut)>> {
        let dir = self.outputs.dirs.for_execution(self.wanted.id);
        if let (None, Begin::At(position)) = (self.position, self.wanted.begin) {
            self.begin(position).await;
        }
        let start = match (self.position, self.wanted.begin) {
            (Some(position), _) | (None, Begin::At(position)) => Start::Before(position),
            (None, Begin::Tail(count)) => Start::LastLines(count),
        };
        let opened = kept::Reader::open(&dir, start, self.wanted.stream, stored).await?;
        let Some((mut reader, first)) = opened else { return Ok(None) };
        if self.position.is_none() {
            self.begin(first).await;
        }
        let mut cut = Cut::between(first, self.position.unwrap_or(first));
        self.pass_on(&mut reader, &mut cut).await?;
        Ok(Some((reader, cut)))
    }

    async fn pass_on(&mut self, reader: &mut kept::Reader, cut: &mut Cut) -> io::Result<()> {
        while let Some(chunk) = reader.next().await? {
            self.take(cut, chunk).await;
        }
        Ok(())
    }

    /// Begins with output that is at hand; returns the position after it.
    async fn give(&mut self, begin: LogPosition, chunks: Vec<OutputChunk>) -> LogPosition {
        self.begin(begin).await;
        let mut all = Cut::Passed;
        for chunk in chunks {
            self.take(&mut all, chunk).await;
        }
        self.position.unwrap_or(begin)
    }

    async fn take(&mut self, cut: &mut Cut, chunk: OutputChunk) {
        let Some(chunk) = self.only(chunk) else { return };
        let rest = cut.pass(chunk);
        if self.position.is_none() && (rest.is_some() || cut.is_reached()) {
            let position = cut.open();
            self.begin(position).await;
        }
        if let (Some(chunk), Some(position)) = (rest, &mut self.position) {
            *position.offset_mut(chunk.stream) += chunk.bytes.len() as u64;
            self.out.send(Ok(Output::Chunk(chunk))).await;
        }
    }

    fn only(&self, chunk: OutputChunk) -> Option<OutputChunk> {
        self.wanted.stream.is_none_or(|wanted| wanted == chunk.stream).then_some(chunk)
    }
}
