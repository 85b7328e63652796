//! Taking in what a task left behind: its output, its result paths, and where they went.

mod output;
mod results;

use std::io;

use crate::attempts::disk_failure;
use crate::execution::{Collected, Failure};
use crate::executor::{Executor, ExecutorError};
use crate::publisher::{Publication, Publishers};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error("the output cannot be kept: {}", disk_failure(_0).message)]
    Disk(#[from] io::Error),
}

/// Takes everything in and publishes it, anew if it was tried before.
pub(crate) async fn collect(
    executor: &dyn Executor,
    publishers: &Publishers,
    run: &Publication<'_>,
) -> Result<Collected, CollectError> {
    let output = output::take_in(executor.logs(run.id, false), run.dir).await?;
    let mut notes = Vec::new();
    for result in &run.work.task.result_paths {
        notes.extend(results::take_in(executor, run, result).await?);
    }
    Ok(Collected { output, publishing: publishers.publish(run).await, notes })
}

// === impl CollectError ===

impl From<CollectError> for Failure {
    fn from(error: CollectError) -> Self {
        match error {
            CollectError::Executor(error) => error.into(),
            CollectError::Disk(_) => Self::node(error.to_string()),
        }
    }
}
