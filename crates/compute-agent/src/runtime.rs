//! The runtimes of tasks: one contract, several engines.
//!
//! Every operation is idempotent, and may be interrupted at any point by a crash of the agent; the
//! next agent repeats it. The key of everything is the execution's id, from which an engine must
//! find its state again without this process's memory.

pub(crate) mod capabilities;
pub(crate) mod docker;
pub(crate) mod environment;
mod field;
pub(crate) mod noop;
pub(crate) mod registry;
mod result_paths;
#[cfg(test)]
mod texts;
mod turns;
pub(crate) mod twin;
pub(crate) mod wasm;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_core::execution::{Exit, Failure};
use api_types::log::LogStream;
use api_types::protocol::{FailureCause, Work};
use api_types::source::InputSource;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::data::credentials::Granted;
use crate::data::inputs::placement::MountedInput;
use crate::data::progress::Progress;
use crate::data::secrets::ExecutionSecrets;
use crate::host::cgroup::Reading;
use crate::host::device::Device;
pub(crate) use field::field_of;
use twin::Twin;

/// Everything an engine needs to prepare a task.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: ExecutionId,
    pub(crate) node_id: NodeId,
    pub(crate) work: Arc<Work>,
    /// The credentials that the task names.
    pub(crate) granted: Granted,
    pub(crate) inputs: Vec<MountedInput>,
    pub(crate) secrets: ExecutionSecrets,
    /// The modules that [`Executor::modules`] requested, in its order.
    pub(crate) modules: Vec<PathBuf>,
    /// Its GPUs, by the names of the container runtime.
    pub(crate) gpus: Vec<String>,
    /// Receives the progress.
    pub(crate) progress: Progress,
}

/// A chunk of a task's output, with arbitrary boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputChunk {
    pub(crate) stream: LogStream,
    /// When it was printed.
    pub(crate) time: Timestamp,
    pub(crate) bytes: Bytes,
}

/// Where the output of a task is until it is collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputKeeping {
    /// In files of this node that only the agent removes.
    OnThisNode,
    /// With the engine, which others may tell to remove it: the agent copies it as it arrives. A
    /// chunk has the same time and the same bytes whenever it is read, and takes this much more
    /// than its bytes.
    WithEngine { piece_bytes: u64 },
}

/// The part of a task's output that is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OutputRange {
    /// Until the end of the process.
    pub(crate) follow: bool,
    /// What was printed before this time may be left out; everything when none.
    pub(crate) since: Option<Timestamp>,
}

/// What the files of a task do not show of its use of a disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Hidden {
    /// Bytes that its processes have written so far, whether a file still has them or not.
    pub(crate) written_bytes: u64,
    /// Files and directories that it has made, changed or removed.
    pub(crate) entries: u64,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorError {
    /// The engine did not respond; tasks under it may still run.
    #[error("{engine} does not answer: {reason}")]
    Unreachable { engine: &'static str, reason: String },
    /// The engine has nothing with this execution's name.
    #[error("its container was removed by someone else")]
    Gone,
    /// The image existed, and was removed.
    #[error("image '{image}' was removed while its container was made: {reason}")]
    NoSuchImage { image: String, reason: String },
    /// The task has nothing at this path.
    #[error("there is nothing at '{path}'")]
    NoSuchPath { path: String },
    /// The engine has the output, and cannot read it or the rest of it.
    #[error("cannot read the output of this execution: {reason}")]
    OutputLost { reason: String },
    /// The engine refused something that the task names. Only a twin tells whose fault it is.
    #[error("{reason}")]
    Refused {
        reason: String,
        /// What such an error counted as before there were twins, for an orchestrator that does not
        /// know the cause `Refused`.
        formerly: FailureCause,
    },
    /// The preparation was cancelled.
    #[error("cancelled")]
    Cancelled,
    #[error("{}", _0.message)]
    Failed(Failure),
}

/// Whether an engine is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Availability {
    /// For as long as the agent runs.
    Always,
    /// It may come and go, and is probed.
    Probed,
}

pub(crate) trait Executor: Send + Sync {
    fn availability(&self) -> Availability {
        Availability::Always
    }

    /// Probes an engine that may be unreachable; returns its identity, for the log.
    fn probe(&self) -> BoxFuture<'_, Result<String, ExecutorError>> {
        ready(Ok(String::new())).boxed()
    }

    /// Runs a twin of a task, and removes it. Keeps to [`TWIN_TIMEOUT`](twin::TWIN_TIMEOUT), and must
    /// be safe to cancel at any point.
    ///
    /// Unreachable where the engine did not respond; any other error means that the engine cannot
    /// run the twin either.
    fn run_twin<'a>(&'a self, _: &'a Twin) -> BoxFuture<'a, Result<(), ExecutorError>> {
        ready(Ok(())).boxed()
    }

    /// The engine's background work: it keeps resources ready and enforces limits, until the agent
    /// stops. It must be safe to cancel at any point.
    fn run_in_background(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    /// Removes idle resources that belong to no task, when the agent stops cleanly. Background
    /// work has ended by then.
    fn shutdown(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }

    /// Why this task cannot run here, judging by its specification alone.
    fn admit(&self, work: &Work) -> Result<(), String>;

    /// The engine's own inputs, which are fetched but not mounted at a path of the task: the
    /// modules of a program.
    fn modules(&self, _: &Work) -> Vec<InputSource> {
        Vec::new()
    }

    /// Fetches what the engine needs and creates the task without starting it. Reuses whatever
    /// exists.
    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>>;

    /// Starts the task, unless it was started before; returns when its process started, by the
    /// steady clock.
    fn start(&self, id: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>>;

    /// What its user should know although it has started, for a task that this process prepared.
    fn remark(&self, _: ExecutionId) -> Option<String> {
        None
    }

    /// Notes when a task was started, which agents remember for an engine that has no process to ask.
    /// Called before each [`wait`](Self::wait) for a task that runs, unless it is being stopped.
    fn note_start(&self, _: ExecutionId, _: &Work, _: Timestamp) {}

    /// Waits for the end of the process, however long the engine is unreachable in between.
    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>>;

    /// Whether the process of a started task still runs, as the engine knows now.
    fn is_running(&self, id: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>>;

    /// Asks the process to end, and kills it after the grace period.
    fn stop(&self, id: ExecutionId, grace: Duration) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Whether the agent copies the output of running tasks.
    fn output_keeping(&self) -> OutputKeeping {
        OutputKeeping::OnThisNode
    }

    /// The output of the task, in order, from its first byte: so far, or with `follow` until its
    /// process has ended. A followed stream may end early when the engine becomes unreachable; the
    /// reader learns from the execution whether there is more.
    fn logs(
        &self,
        id: ExecutionId,
        range: OutputRange,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>>;

    /// A file or directory of an ended task, as a tar whose entries begin with the last component
    /// of the path.
    fn copy_out<'a>(
        &'a self,
        id: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>>;

    /// The bytes that the task has written so far, except for its inputs and output that the
    /// engine bounds itself; none where the engine cannot measure them.
    fn written_bytes(&self, _: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        ready(Ok(None)).boxed()
    }

    /// A directory on the disk that tasks write to; none where this machine does not show it.
    fn task_directory(&self) -> BoxFuture<'_, Option<PathBuf>> {
        ready(None).boxed()
    }

    /// How a running task uses up this disk in ways that its files do not show. Costs the engine
    /// much to tell; 0 where nothing tells.
    fn hidden<'a>(&'a self, _: ExecutionId, _: &'a Device) -> BoxFuture<'a, Hidden> {
        ready(Hidden::default()).boxed()
    }

    /// What the task uses, or used until its process ended; none where nothing measures it.
    fn usage(&self, _: ExecutionId) -> BoxFuture<'_, Result<Option<Reading>, ExecutorError>> {
        ready(Ok(None)).boxed()
    }

    /// Whether running tasks write to the agent's data directory.
    fn fills_the_data_directory(&self) -> bool {
        false
    }

    /// Removes everything that the engine holds of the execution, whether it runs or not.
    fn remove(&self, id: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Every execution of this node of which the engine holds something.
    fn list(&self, node_id: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>>;
}

// === impl ExecutorError ===

impl From<Failure> for ExecutorError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        match error {
            ExecutorError::Failed(failure) => failure,
            ExecutorError::Refused { reason, formerly } => Self::new(formerly, reason),
            ExecutorError::Unreachable { .. }
            | ExecutorError::Gone
            | ExecutorError::NoSuchImage { .. }
            | ExecutorError::NoSuchPath { .. }
            | ExecutorError::OutputLost { .. }
            | ExecutorError::Cancelled => Self::node(error.to_string()),
        }
    }
}
