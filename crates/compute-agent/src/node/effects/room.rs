//! Enforces the disk limit of a running task.
//!
//! A measurement makes the engine walk through the task's files, so measurements start soon after
//! the start and become less frequent. Between two of them a task can exceed its limit; its
//! results are checked again at collection.

use std::time::Duration;

use agent_core::execution::Failure;
use tracing::debug;

use super::{Step, Steps};
use crate::data::results::collect::intake::WHOLE;
use crate::host::disk::{self, OutputLimit};
use crate::runtime::Executor;

/// The time of the first measurement, and the longest interval between two.
const ENGINE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The same for tasks whose files lie in the data directory, where a measurement is cheaper.
const DATA_DIRECTORY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// Interval of disk space checks while a task that can fill the node's disk runs. Fast disks write
/// some hundred megabytes in that time, which the agent's reserve covers.
const ASK_FOR_ROOM: Duration = Duration::from_millis(100);

/// The write limit of the task; its inputs count towards it.
pub(super) async fn limit(steps: &Steps, step: &Step) -> OutputLimit {
    let disk_bytes = step.work.resources.disk;
    let mut inputs_bytes = 0;
    if disk_bytes > 0 {
        let dir = steps.files.dirs.of(step.id);
        let measured = tokio::task::spawn_blocking(move || dir.inputs_bytes()).await;
        match measured.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(bytes) => inputs_bytes = bytes,
            // An error favours the task.
            Err(error) => debug!(execution = %step.id, %error, "cannot measure the inputs"),
        }
    }
    OutputLimit::new(disk_bytes, inputs_bytes, steps.files.results_max_bytes)
}

/// Returns when the task exceeds its limit, or the node's disk space.
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
                steps.meters.wrote(step.id, bytes);
                if let Some(failure) = limit.check(WHOLE, bytes) {
                    return failure;
                }
            }
            Ok(None) => std::future::pending().await,
            // The watcher of the task's end reports the problem as well.
            Err(error) => debug!(execution = %step.id, %error, "cannot measure a task"),
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
