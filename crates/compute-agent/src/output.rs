//! What a task prints, from wherever it is: the engine while it is there, this node's disk after.
//!
//! A reader may begin anywhere: positions are bytes of each stream from its beginning, which are
//! the same wherever the output is read from. That is what lets one reader go on from the engine
//! to the disk, and another take up after a connection broke off, without a gap or a repeat.
//!
//! A reader that is slow holds back only its own connection to the engine, which keeps output in
//! files of its own.

mod cut;
pub(crate) mod kept;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use api_types::engine::EngineType;
use api_types::id::IdPrefix;
use api_types::log::{LogPosition, LogStream};
use futures_util::stream::{Stream, StreamExt};
use tracing::debug;

use crate::core::Found;
use crate::data_dir::ExecutionDirs;
use crate::executor::{Engines, ExecutorError, OutputChunk};
use crate::generator::{Out, generate};
use crate::supervisor::Mailbox;
use cut::{Cut, Lines};

/// How often a reader that follows looks whether the task has started, or its output was taken in.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// So many times in a row the engine may fail while nobody follows: a task may end, and its output
/// go from the engine to the disk, under a reader.
const MAX_TRIES: u32 = 5;

/// Reads the output of this node's executions.
pub(crate) struct Outputs {
    engines: Arc<Engines>,
    mailbox: Mailbox,
    dirs: ExecutionDirs,
}

/// Which part of an execution's output.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) id: ExecutionId,
    /// Until the execution is over.
    pub(crate) follow: bool,
    /// Both when none.
    pub(crate) stream: Option<LogStream>,
    pub(crate) begin: Begin,
}

/// Where to begin.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Begin {
    At(LogPosition),
    /// So many lines before the end of what is there now.
    Tail(u64),
}

/// What a reader gets; `Begin` first, then the rest.
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
    #[error("the output kept on the node's disk cannot be read")]
    Disk(#[from] io::Error),
    #[error("the agent is stopping")]
    Stopping,
}

/// Where the output is right now.
enum Place {
    /// The task was not started yet.
    Nowhere,
    /// What runs there may print more.
    Running(EngineType),
    /// It has printed all that it will.
    Ended(EngineType),
    Disk,
}

/// One reader on its way through the output.
struct Reading {
    outputs: Arc<Outputs>,
    wanted: Wanted,
    out: Out<Result<Output, OutputError>>,
    /// Where it goes on; none until `Begin` was told.
    position: Option<LogPosition>,
}

// === impl Outputs ===

impl Outputs {
    pub(crate) fn new(
        engines: &Arc<Engines>,
        mailbox: &Mailbox,
        dirs: &ExecutionDirs,
    ) -> Arc<Self> {
        let (engines, mailbox, dirs) = (Arc::clone(engines), mailbox.clone(), dirs.clone());
        Arc::new(Self { engines, mailbox, dirs })
    }

    /// Ends when all that was asked for was told; an error is the last item.
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

    async fn place(&self, id: ExecutionId) -> Result<Place, OutputError> {
        let exactly = IdPrefix { low: id.uuid(), high: id.uuid() };
        match self.mailbox.find(exactly).await.map_err(|_| OutputError::Stopping)? {
            Found::None => Err(OutputError::Absent),
            Found::One { local, engine } => Ok(match local.phase.as_str() {
                "Accepted" | "Preparing" | "Withdrawing" | "Starting" => Place::Nowhere,
                "Running" | "Stopping" => Place::Running(engine),
                "Collecting" => Place::Ended(engine),
                _ => Place::Disk,
            }),
            Found::Many(ids) => unreachable_many(&ids),
        }
    }
}

fn unreachable_many(ids: &[ExecutionId]) -> ! {
    panic!("one full id named {} executions of the table, whose keys are ids", ids.len())
}

// === impl Reading ===

impl Reading {
    async fn read_whole(&mut self) -> Result<(), OutputError> {
        let mut tries = 0;
        loop {
            let place = self.outputs.place(self.wanted.id).await?;
            // What the engine tells of a task that runs may be cut off by the task's end; what is
            // read after its end is whole.
            let (is_all, read) = match place {
                Place::Nowhere => (false, Ok(())),
                Place::Running(engine) => (false, self.read_engine(engine, true).await),
                Place::Ended(engine) => (true, self.read_engine(engine, false).await),
                Place::Disk => {
                    self.read_disk().await?;
                    (true, Ok(()))
                }
            };
            match read {
                Ok(()) if is_all || !self.wanted.follow => return self.begin_at_last().await,
                Ok(()) => {}
                // It went to the disk meanwhile, or the engine is away, which a task survives.
                Err(error @ (ExecutorError::Gone | ExecutorError::Unreachable { .. })) => {
                    tries += 1;
                    if tries >= MAX_TRIES && !self.wanted.follow {
                        return Err(error.into());
                    }
                    debug!(execution = %self.wanted.id, %error, "output is looked for again");
                }
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// What was read to its end has begun, though it were empty.
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
                reason: format!("engine '{engine}' was taken out of this node's settings"),
            });
        };
        let mut lines = Lines::default();
        if self.counts_lines() {
            let mut chunks = executor.logs(self.wanted.id, false);
            while let Some(chunk) = chunks.next().await {
                self.only(chunk?).iter().for_each(|chunk| lines.count(chunk));
            }
        }
        let mut cut = self.cut(&lines).await;
        let follow = self.wanted.follow && may_print_more;
        let mut chunks = executor.logs(self.wanted.id, follow);
        while let Some(chunk) = chunks.next().await {
            self.take(&mut cut, chunk?).await;
        }
        Ok(())
    }

    async fn read_disk(&mut self) -> io::Result<()> {
        let dir = self.outputs.dirs.of(self.wanted.id);
        let mut lines = Lines::default();
        if self.counts_lines()
            && let Some(mut reader) = kept::Reader::open(&dir).await?
        {
            while let Some(chunk) = reader.next().await? {
                self.only(chunk).iter().for_each(|chunk| lines.count(chunk));
            }
        }
        let mut cut = self.cut(&lines).await;
        let Some(mut reader) = kept::Reader::open(&dir).await? else { return Ok(()) };
        while let Some(chunk) = reader.next().await? {
            self.take(&mut cut, chunk).await;
        }
        Ok(())
    }

    fn counts_lines(&self) -> bool {
        self.position.is_none() && matches!(self.wanted.begin, Begin::Tail(_))
    }

    /// What is to be passed over, of output with so many lines.
    async fn cut(&mut self, lines: &Lines) -> Cut {
        let mut cut = match (self.position, self.wanted.begin) {
            (Some(position), _) => Cut::after_bytes(position),
            (None, Begin::At(position)) => {
                self.begin(position).await;
                Cut::after_bytes(position)
            }
            (None, Begin::Tail(count)) => Cut::after_lines(lines.begun.saturating_sub(count)),
        };
        if self.position.is_none() && cut.is_reached() {
            let position = cut.open();
            self.begin(position).await;
        }
        cut
    }

    async fn take(&mut self, cut: &mut Cut, chunk: OutputChunk) {
        let Some(chunk) = self.only(chunk) else { return };
        let rest = cut.pass(chunk);
        if self.position.is_none() && (rest.is_some() || cut.is_reached()) {
            let position = cut.open();
            self.begin(position).await;
        }
        if let (Some(chunk), Some(position)) = (rest, &mut self.position) {
            *position.of_mut(chunk.stream) += chunk.bytes.len() as u64;
            self.out.send(Ok(Output::Chunk(chunk))).await;
        }
    }

    fn only(&self, chunk: OutputChunk) -> Option<OutputChunk> {
        self.wanted.stream.is_none_or(|wanted| wanted == chunk.stream).then_some(chunk)
    }
}
