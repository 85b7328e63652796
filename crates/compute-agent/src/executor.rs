//! What runs a task: one contract, several engines.
//!
//! Every operation may be repeated, and may be cut off at any point by the death of the agent:
//! whoever comes after asks again. The key of everything is the execution's id, which an engine
//! must be able to find again without help from this process's memory.

pub(crate) mod docker;
mod engines;
pub(crate) mod noop;
mod result_paths;
pub(crate) mod wasm;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use api_types::log::LogStream;
use api_types::protocol::Work;
use api_types::source::InputSource;
use api_types::{ExecutionId, NodeId, Timestamp};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::execution::{Exit, Failure};
use crate::progress::Progress;

pub(crate) use engines::Engines;

/// What an engine needs to make a task ready.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) id: ExecutionId,
    pub(crate) node_id: NodeId,
    pub(crate) work: Arc<Work>,
    pub(crate) inputs: Vec<MountedInput>,
    /// What [`Executor::modules`] asked for, in its order.
    pub(crate) modules: Vec<PathBuf>,
    /// The GPUs that are its own, as a container runtime calls them.
    pub(crate) gpus: Vec<String>,
    /// Who is told how far it is.
    pub(crate) progress: Progress,
}

/// An input on this node's disk, and where the task sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MountedInput {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
    /// Only what belongs to the node and not to the execution.
    pub(crate) writable: bool,
}

/// A piece of what a task printed, however it is cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OutputChunk {
    pub(crate) stream: LogStream,
    /// When it was printed.
    pub(crate) time: Timestamp,
    pub(crate) bytes: Bytes,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecutorError {
    /// The engine did not answer; what runs under it may well still run.
    #[error("{engine} does not answer: {reason}")]
    Unreachable { engine: &'static str, reason: String },
    /// The engine has nothing under this execution's name.
    #[error("the container of this execution is gone: it was removed by someone else")]
    Gone,
    /// The image was there, and is not any more.
    #[error("image '{image}' was removed while its container was made: {reason}")]
    NoSuchImage { image: String, reason: String },
    /// The task has nothing at this path.
    #[error("there is nothing at '{path}'")]
    NoSuchPath { path: String },
    /// It was told to give up.
    #[error("given up")]
    Cancelled,
    #[error("{}", _0.message)]
    Failed(Failure),
}

pub(crate) trait Executor: Send + Sync {
    /// Why this task cannot run here, from its specification alone.
    fn admit(&self, work: &Work) -> Result<(), String>;

    /// What of the engine's own Params is fetched like an input, without being shown to the task
    /// at a path: the modules of a program.
    fn modules(&self, _: &Work) -> Vec<InputSource> {
        Vec::new()
    }

    /// Fetches what the engine needs and makes the task, without starting it. What exists
    /// already is taken as it is.
    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>>;

    /// Starts the task, unless it was started before; answers when its process started.
    fn start(&self, id: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>>;

    /// Waits for the end of the process, however long the engine is away meanwhile.
    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>>;

    /// Asks the process to end, and after the grace makes it.
    fn stop(&self, id: ExecutionId, grace: Duration) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// What the task has printed, in order, from its first byte: so far, or with `follow` until
    /// its process has ended. One that follows may end before everything was told, when the
    /// engine goes away; whoever follows knows by the execution whether there is more.
    fn logs(
        &self,
        id: ExecutionId,
        follow: bool,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>>;

    /// A file or directory of a task that has ended, as a tar whose entries begin with the last
    /// component of the path.
    fn copy_out<'a>(
        &'a self,
        id: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>>;

    /// What the task has written so far, besides what it printed to an engine that bounds that
    /// itself, and besides its inputs; none where that cannot be told.
    fn written_bytes(&self, _: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        futures_util::future::ready(Ok(None)).boxed()
    }

    /// Whether what tasks write lies in the agent's data directory, while they run already.
    fn fills_the_data_directory(&self) -> bool {
        false
    }

    /// Removes all that the engine holds of the execution, whether it runs or not.
    fn remove(&self, id: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>>;

    /// Every execution of this node that the engine holds something of.
    fn list(&self, node_id: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>>;
}

// === impl ExecutorError ===

impl From<ExecutorError> for Failure {
    fn from(error: ExecutorError) -> Self {
        match error {
            ExecutorError::Failed(failure) => failure,
            ExecutorError::Unreachable { .. }
            | ExecutorError::Gone
            | ExecutorError::NoSuchImage { .. }
            | ExecutorError::NoSuchPath { .. }
            | ExecutorError::Cancelled => Self::node(error.to_string()),
        }
    }
}
