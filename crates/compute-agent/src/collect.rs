//! Taking in what a task left behind: its output, its result paths, and where they went.
//!
//! A disk without room, the node's or the task's own, does not end this: what is known of the run
//! is told with the failure that comes of it.

mod output;
mod results;

use std::io;

use crate::disk::{self, Disk, OutputLimit};
use crate::execution::{Collected, Failure, Publishing};
use crate::executor::{Executor, ExecutorError};
use crate::publisher::{Publication, Publishers};

#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error("the output cannot be kept: {}", disk::failure(_0).message)]
    Disk(#[from] io::Error),
}

/// How much may be taken in, and how much was.
pub(crate) struct Intake<'a> {
    pub(crate) disk: &'a Disk,
    limit: OutputLimit,
    taken_bytes: u64,
    /// Why a run that went well has failed nevertheless: the first reason there was.
    spoilt: Option<Failure>,
}

/// Takes everything in and publishes it, anew if it was tried before.
pub(crate) async fn collect(
    executor: &dyn Executor,
    publishers: &Publishers,
    run: &Publication<'_>,
    mut intake: Intake<'_>,
) -> Result<Collected, CollectError> {
    let output = output::take_in(executor.logs(run.id, false), run.dir, &mut intake).await?;
    let mut notes = Vec::new();
    for result in &run.work.task.result_paths {
        if intake.is_the_disk_full() {
            break;
        }
        notes.extend(results::take_in(executor, run, result, &mut intake).await?);
    }
    if intake.limit.is_the_tasks_own() && intake.spoilt.is_none() {
        let written_bytes = executor.written_bytes(run.id).await?.unwrap_or_default();
        intake.spoilt = intake.limit.judge(WHOLE, written_bytes);
    }
    let publishing = match intake.is_the_disk_full() {
        true => Publishing::NotAsked,
        false => publishers.publish(run).await,
    };
    Ok(Collected { output, publishing, notes, spoilt: intake.spoilt })
}

/// What a message calls all that a task wrote.
pub(crate) const WHOLE: &str = "what the task wrote (below '/', its inputs apart)";

// === impl Intake ===

impl<'a> Intake<'a> {
    pub(crate) fn new(disk: &'a Disk, limit: OutputLimit) -> Self {
        Self { disk, limit, taken_bytes: 0, spoilt: None }
    }

    fn left_bytes(&self) -> u64 {
        self.limit.left_after(self.taken_bytes)
    }

    fn spoil(&mut self, failure: Failure) {
        self.spoilt.get_or_insert(failure);
    }

    /// Another node may have room for it.
    fn is_the_disk_full(&self) -> bool {
        use api_types::protocol::FailureCause;
        self.spoilt.as_ref().is_some_and(|failure| failure.cause == FailureCause::Node)
    }
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
