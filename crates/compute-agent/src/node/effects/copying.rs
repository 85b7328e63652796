//! Copies what a running task prints, and stops a task that prints more than it may.

use agent_core::execution::Failure;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::disk_limit;
use super::runner::{EffectRunner, ExecutionHandle};
use crate::data::logs::copies::Source;
use crate::runtime::{Executor, OutputKeeping};

/// Copies until the process has ended; sends the failure of a task that prints more than its limit.
pub(super) async fn copy(
    runner: &EffectRunner,
    handle: &ExecutionHandle,
    executor: &dyn Executor,
    ended: &CancellationToken,
    beyond: oneshot::Sender<Failure>,
) {
    match executor.output_keeping() {
        OutputKeeping::OnThisNode => return,
        OutputKeeping::WithEngine { .. } => {}
    }
    let copy = runner.files.copies.begin(handle.id);
    if !copy.is_due(ended).await {
        return;
    }
    let limit = disk_limit::limit(runner, handle).await;
    let dir = runner.files.dirs.for_execution(handle.id);
    let source = Source { id: handle.id, executor, dir: &dir, disk: &runner.files.disk, ended };
    if let Some(failure) = copy.run(&source, limit).await {
        // Fails only if the task is made to end for another reason.
        drop(beyond.send(failure));
    }
}
