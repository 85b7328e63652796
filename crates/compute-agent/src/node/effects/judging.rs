//! Judges the failures of effects before they are reported.

use agent_core::execution::Failure;
use tokio_util::sync::CancellationToken;

use super::{EffectRunner, ExecutionHandle};
use crate::runtime::ExecutorError;

// === impl EffectRunner: judging ===

impl EffectRunner {
    /// What the user should know of a task that has started.
    pub(super) fn remark(&self, handle: &ExecutionHandle) -> Option<String> {
        self.executor(&handle.work).ok()?.remark(handle.id)
    }

    /// The failure that ends an effect, once it is known whether this node is at fault.
    pub(super) async fn judge(
        &self,
        handle: &ExecutionHandle,
        error: ExecutorError,
        cancel: &CancellationToken,
    ) -> Failure {
        let as_it_is = match cancel.is_cancelled() {
            // No one waits for it.
            true => return error.into(),
            false => error.to_string(),
        };
        let judging = self.probes.judge(error, &handle.work, self.gpus.device_ids(&handle.gpus));
        let judged = cancel.run_until_cancelled(Box::pin(judging)).await;
        judged.unwrap_or_else(|| Failure::node(as_it_is))
    }
}
