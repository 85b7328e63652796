//! Enforces the disk limit of a running task.
//!
//! A measurement makes the engine walk through the task's files, so measurements start soon after
//! the start and become less frequent. Between two of them a task can exceed its limit; its
//! results are checked again at collection.

use std::time::Duration;

use agent_core::execution::Failure;
use tracing::debug;

use super::runner::{EffectRunner, ExecutionHandle};
use crate::data::results::collect::intake::{WHOLE, WHOLE_AND_PRINTED};
use crate::host::disk::OutputLimit;
use crate::runtime::Executor;

/// The time of the first measurement, and the longest interval between two.
const ENGINE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The same for tasks whose files lie in the data directory, where a measurement is cheaper.
const DATA_DIRECTORY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

/// The write limit of the task; its inputs count towards it.
pub(super) async fn limit(runner: &EffectRunner, handle: &ExecutionHandle) -> OutputLimit {
    let disk_bytes = handle.work.resources.disk;
    let mut inputs_bytes = 0;
    if disk_bytes > 0 {
        let dir = runner.files.dirs.for_execution(handle.id);
        let measured = tokio::task::spawn_blocking(move || dir.inputs_bytes()).await;
        match measured.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok(bytes) => inputs_bytes = bytes,
            // An error favours the task.
            Err(error) => debug!(execution = %handle.id, %error, "cannot measure the inputs"),
        }
    }
    OutputLimit::new(disk_bytes, inputs_bytes, runner.files.results_max_bytes)
}

/// Returns when the task exceeds its limit.
pub(super) async fn overfull(
    runner: &EffectRunner,
    handle: &ExecutionHandle,
    executor: &dyn Executor,
) -> Failure {
    let (mut wait, rarest) =
        if executor.fills_the_data_directory() { DATA_DIRECTORY } else { ENGINE };
    tokio::time::sleep(wait).await;
    let limit = limit(runner, handle).await;
    loop {
        let measuring = runner.files.measuring.acquire().await;
        let written = executor.written_bytes(handle.id).await;
        drop(measuring);
        match written {
            Ok(Some(bytes)) => {
                runner.meters.wrote(handle.id, bytes);
                let printed = runner.files.copies.bytes(handle.id);
                let failure = limit
                    .check(WHOLE, bytes)
                    .or_else(|| limit.check(WHOLE_AND_PRINTED, bytes.saturating_add(printed)));
                if let Some(failure) = failure {
                    return failure;
                }
            }
            Ok(None) => std::future::pending().await,
            // The watcher of the task's end reports the problem as well.
            Err(error) => debug!(execution = %handle.id, %error, "cannot measure a task"),
        }
        tokio::time::sleep(wait).await;
        wait = (2 * wait).min(rarest);
    }
}
