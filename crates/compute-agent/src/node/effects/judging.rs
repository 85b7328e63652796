//! Judges the failures of steps before they are reported.

use agent_core::execution::Failure;
use tokio_util::sync::CancellationToken;

use super::{Step, Steps};
use crate::runtime::ExecutorError;

// === impl Steps: judging ===

impl Steps {
    /// What the user should know of a task that has started.
    pub(super) fn remark(&self, step: &Step) -> Option<String> {
        self.executor(&step.work).ok()?.remark(step.id)
    }

    /// The failure that ends a step, once it is known whether this node is at fault.
    pub(super) async fn judge(
        &self,
        step: &Step,
        error: ExecutorError,
        cancel: &CancellationToken,
    ) -> Failure {
        let as_it_is = match cancel.is_cancelled() {
            // No one waits for it.
            true => return error.into(),
            false => error.to_string(),
        };
        let judging = self.probes.judge(error, &step.work, self.gpus.device_ids(&step.gpus));
        let judged = cancel.run_until_cancelled(Box::pin(judging)).await;
        judged.unwrap_or_else(|| Failure::node(as_it_is))
    }
}
