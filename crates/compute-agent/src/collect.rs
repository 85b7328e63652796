//! Taking in what a task left behind: its output, its result paths, and where they went.

mod output;
mod results;

use std::io;

use api_types::ExecutionId;
use api_types::protocol::Work;

use crate::data_dir::ExecutionDir;
use crate::execution::{Collected, Failure};
use crate::executor::{Executor, ExecutorError};
use crate::publisher::Publishers;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error("the output cannot be kept on the node's disk: {0}")]
    Disk(#[from] io::Error),
    #[error("{}", _0.message)]
    Publish(Failure),
}

/// Takes everything in, anew if it was tried before.
pub(crate) async fn collect(
    executor: &dyn Executor,
    publishers: &Publishers,
    id: ExecutionId,
    work: &Work,
    dir: &ExecutionDir,
) -> Result<Collected, CollectError> {
    let output = output::take_in(executor.logs(id, false), dir).await?;
    let mut notes = Vec::new();
    for result in &work.task.result_paths {
        notes.extend(results::take_in(executor, id, result, dir).await?);
    }
    let publisher = publishers.get(work.task.publisher.publisher_type);
    let published = match publisher {
        Some(publisher) => publisher.publish(work, dir).await.map_err(CollectError::Publish)?,
        // Declined at the offer; an agent that was replaced by an older release may come here.
        None => return Err(CollectError::Publish(Failure::node("no such publisher on this node"))),
    };
    Ok(Collected { output, published, notes })
}

// === impl CollectError ===

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Executor(error) => error.into(),
            CollectError::Disk(_) => Self::node(error.to_string()),
            CollectError::Publish(failure) => failure,
        }
    }
}
