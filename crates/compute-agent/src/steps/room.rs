//! Whether a task that runs keeps to its room on the disk.
//!
//! What it wrote is measured now and then, which costs the engine a walk through its files: soon
//! after the start, and then less and less often. Between two looks a task can write more than it
//! may; what it leaves is judged once more when it is collected.

use std::time::Duration;

use tracing::debug;

use super::{Step, Steps};
use crate::collect::WHOLE;
use crate::disk::{self, OutputLimit};
use crate::execution::Failure;
use crate::executor::Executor;

/// When the first look is, and how rare they become.
const ENGINE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The same where it lies in the data directory, which is looked through sooner.
const DATA_DIRECTORY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// How often it is asked whether the node's disk has room, for tasks that can fill it. Fast disks
/// take some hundred megabytes meanwhile, which is what the agent's reserve is for.
const ASK_FOR_ROOM: Duration = Duration::from_millis(100);

/// What the task may write; its inputs lie there.
pub(super) async fn limit(steps: &Steps, step: &Step) -> OutputLimit {
    let disk_bytes = step.work.resources.disk;
    let mut inputs_bytes = 0;
    if disk_bytes > 0 {
        let dir = steps.files.dirs.of(step.id);
        let measured = tokio::task::spawn_blocking(move || dir.inputs_bytes()).await;
        match measured.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(bytes) => inputs_bytes = bytes,
            // To the task's advantage.
            Err(error) => debug!(execution = %step.id, %error, "the inputs cannot be measured"),
        }
    }
    OutputLimit::new(disk_bytes, inputs_bytes, steps.files.results_max_bytes)
}

/// Ends when the task has written more than it may, or than the node has room for.
pub(super) async fn overfull(steps: &Steps, step: &Step, executor: &dyn Executor) -> Failure {
    tokio::select! {
        failure = beyond(steps, step, executor) => failure,
        failure = shortage(steps), if executor.fills_the_data_directory() => failure,
    }
}

async fn beyond(steps: &Steps, step: &Step, executor: &dyn Executor) -> Failure {
    let (mut wait, rarest) =
        if executor.fills_the_data_directory() { DATA_DIRECTORY } else { ENGINE };
    tokio::time::sleep(wait).await;
    let limit = limit(steps, step).await;
    loop {
        let measuring = steps.files.measuring.acquire().await;
        let written = executor.written_bytes(step.id).await;
        drop(measuring);
        match written {
            Ok(Some(bytes)) => {
                if let Some(failure) = limit.judge(WHOLE, bytes) {
                    return failure;
                }
            }
            Ok(None) => std::future::pending().await,
            // Whoever waits for the task's end hears of it as well.
            Err(error) => debug!(execution = %step.id, %error, "a task cannot be measured"),
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(rarest);
    }
}

async fn shortage(steps: &Steps) -> Failure {
    loop {
        if let Some(shortage) = steps.files.disk.shortage() {
            return disk::failure(&shortage);
        }
        tokio::time::sleep(ASK_FOR_ROOM).await;
    }
}
