//! Collects and publishes what an ended task left behind.
//!
//! The task has ended well or badly, and must not run a second time because its engine had a bad
//! moment: the agent waits while an engine is unreachable, and tolerates some errors in a row.

use std::sync::Arc;

use agent_core::execution::{Collected, Event};
use api_types::protocol::FailureCause;
use api_types::usage::Usage;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::failpoints::COLLECT;
use super::{EffectRunner, ExecutionHandle, RETRY_FIRST, RETRY_LONGEST, disk_limit};
use crate::data::credentials::Grantor;
use crate::data::results::collect;
use crate::data::results::collect::intake::{CollectError, Intake};
use crate::data::results::publisher::publication::Publication;
use crate::host::backoff::Backoff;
use crate::runtime::ExecutorError;

/// Errors of an engine that answers, over half a minute or more. After that what it could not read
/// of the output is lost, and any other error is the end.
const MAX_COLLECT_REFUSALS: u32 = 12;

// === impl EffectRunner: collecting ===

impl EffectRunner {
    pub(crate) fn collect(self: &Arc<Self>, handle: ExecutionHandle, exit_code: i32) {
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            failpoint::handle("collect", &handle.work.job_name);
            let watch = runner.observer.watch(handle.id, &handle.work);
            let event = match watch.within(runner.collect_whole(&handle, exit_code)).await {
                Ok(collected) => Event::Collected(Box::new(collected)),
                Err(error) => {
                    Event::Failed(runner.judge(&handle, error, &CancellationToken::new()).await)
                }
            };
            handle.tell(event).await;
        });
    }

    async fn collect_whole(
        &self,
        handle: &ExecutionHandle,
        exit_code: i32,
    ) -> Result<Collected, ExecutorError> {
        let executor = self.executor(&handle.work)?;
        let dir = self.files.dirs.for_execution(handle.id);
        let grantor = Grantor::Orchestrator(self.files.secrets.handover().clone());
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut refusals = 0;
        loop {
            let run = Publication {
                id: handle.id,
                node_id: self.node_id,
                work: &handle.work,
                exit_code,
                dir: &dir,
                grantor: &grantor,
            };
            let limit = disk_limit::limit(self, handle).await;
            let is_last = refusals >= MAX_COLLECT_REFUSALS;
            let intake =
                || Intake::new(&self.files.disk, limit, &self.files.copies).accepting_loss(is_last);
            let collect = || collect::collect(executor, &self.files.publishers, &run, intake());
            match failpoint::around(COLLECT, collect).await {
                Err(CollectError::Executor(error @ ExecutorError::Unreachable { .. })) => {
                    debug!(%error, "the engine is unreachable; retrying the collection");
                }
                // A stopping or starting engine may return any error.
                Err(CollectError::Executor(error)) if !is_last && is_refusal(&error) => {
                    refusals += 1;
                    debug!(%error, "the engine refuses the output; retrying the collection");
                }
                outcome => {
                    let (mut collected, written_bytes) = outcome?;
                    if let Some((usage, curve)) = self.meters.totals(handle.id).await {
                        let disk = written_bytes.or(usage.disk);
                        collected.usage = Some(Usage { disk, ..usage });
                        collected.curve = curve;
                    }
                    return Ok(collected);
                }
            }
            backoff.wait().await;
        }
    }
}

fn is_refusal(error: &ExecutorError) -> bool {
    match error {
        ExecutorError::OutputLost { .. } | ExecutorError::Refused { .. } => true,
        ExecutorError::Failed(failure) => {
            matches!(failure.cause, FailureCause::Node | FailureCause::Refused)
        }
        _ => false,
    }
}
