//! Copies what a running task prints, and stops a task that prints more than it may.

use agent_core::execution::Failure;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::room;
use super::steps::{Step, Steps};
use crate::data::logs::copies::Source;
use crate::runtime::{Executor, OutputKeeping};

/// Copies until the process has ended; sends the failure of a task that prints more than its limit.
pub(super) async fn copy(
    steps: &Steps,
    step: &Step,
    executor: &dyn Executor,
    ended: &CancellationToken,
    beyond: oneshot::Sender<Failure>,
) {
    match executor.output_keeping() {
        OutputKeeping::OnThisNode => return,
        OutputKeeping::WithEngine { .. } => {}
    }
    let copy = steps.files.copies.begin(step.id);
    if !copy.is_due(ended).await {
        return;
    }
    let limit = room::limit(steps, step).await;
    let dir = steps.files.dirs.for_execution(step.id);
    let source = Source { id: step.id, executor, dir: &dir, disk: &steps.files.disk, ended };
    if let Some(failure) = copy.run(&source, limit).await {
        // Fails only if the task is made to end for another reason.
        drop(beyond.send(failure));
    }
}
