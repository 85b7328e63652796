//! Runs the effects of executions: each in a separate task that ends with an event.

mod collecting;
mod copying;
mod disk_limit;
mod failpoints;
mod judging;
mod runner;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use agent_core::execution::{Event, Failure};
use api_types::protocol::Work;
use api_types::{ExecutionId, Timestamp};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, warn};

use crate::data::inputs::job::relay::OtherJobs;
use crate::data::progress::Progress;
use crate::host::backoff::Backoff;
use crate::host::clock;
use crate::host::data_dir::ExecutionDir;
use crate::observer::Stage;
use crate::runtime::{Executor, ExecutorError, Run};
use failpoints::{CREATE, REMOVE, START, STOP, WAIT};
pub(crate) use runner::{EffectRunner, ExecutionHandle, Files};

/// Delays between attempts that fail because the engine is unreachable.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// How often the preparation of a task retries after the engine became unreachable, some seconds
/// in total; after that another node may run it.
const PREPARE_TRIES: u32 = 5;

/// The size of the future of an effect; every execution has one: what few of them need is boxed.
const MAX_EFFECT_BYTES: usize = 10 * 1024;

// === impl EffectRunner ===

impl EffectRunner {
    pub(crate) fn prepare(self: &Arc<Self>, handle: ExecutionHandle, cancel: CancellationToken) {
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            let event = match runner.make_ready(&handle, &cancel).await {
                Ok(()) => Event::Prepared,
                Err(error) => Event::Failed(runner.judge(&handle, error, &cancel).await),
            };
            handle.tell(event).await;
        });
    }

    async fn make_ready(
        &self,
        handle: &ExecutionHandle,
        cancel: &CancellationToken,
    ) -> Result<(), ExecutorError> {
        failpoint::handle("prepare", &handle.work.job_name);
        let executor = self.executor(&handle.work)?;
        let dir = self.files.dirs.for_execution(handle.id);
        let mut wanted = handle.work.task.input_sources.clone();
        let inputs_count = wanted.len();
        wanted.extend(executor.modules(&handle.work));
        let watch = self.observer.watch(handle.id, &handle.work);
        let progress = Progress::new(handle.id, Arc::new(handle.mailbox.clone()));
        let (id, work) = (handle.id, Arc::clone(&handle.work));
        let handover = self.files.secrets.handover();
        let asking = handover.grant(id, &work.task, &progress);
        let granted = cancel.run_until_cancelled(asking).await;
        let granted = granted.ok_or(ExecutorError::Cancelled)??;
        let other_jobs = OtherJobs::Orchestrator { handover: handover.clone(), id };
        let given = (&granted, &other_jobs);
        let fetching = self.files.sources.fetch_all(&wanted, &work, given, &dir, &progress);
        let fetching = async {
            let fetched = cancel.run_until_cancelled(fetching).await;
            fetched.ok_or_else(|| Failure::from(ExecutorError::Cancelled))
        };
        let mut inputs = match watch.stage(Stage::Inputs, async { fetching.await? }).await {
            Ok(inputs) => inputs,
            Err(failure) => {
                // Immediately: on a disk that its inputs fill, even the failure could not be
                // recorded.
                remove_inputs(dir, handle.id).await;
                return Err(failure.into());
            }
        };
        let modules = inputs.split_off(inputs_count);
        let modules = modules.into_iter().map(|module| module.source).collect();
        let (gpus, node_id) = (self.gpus.device_ids(&handle.gpus), self.node_id);
        let asking = self.files.secrets.hand_over(id, &work, &progress);
        let secrets = cancel.run_until_cancelled(asking).await;
        let secrets = secrets.ok_or(ExecutorError::Cancelled)??;
        let run = Run { id, node_id, work, granted, inputs, secrets, modules, gpus, progress };
        watch.stage(Stage::Make, self.make(&run, cancel)).await
    }

    async fn make(&self, run: &Run, cancel: &CancellationToken) -> Result<(), ExecutorError> {
        let executor = self.executor(&run.work)?;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let prepare = || failpoint::around(CREATE, || executor.prepare(run, cancel));
        for _ in 1..PREPARE_TRIES {
            match prepare().await {
                Err(error @ ExecutorError::Unreachable { .. }) => {
                    debug!(%error, "the engine is unreachable; retrying the preparation");
                }
                outcome => return outcome,
            }
            cancel.run_until_cancelled(backoff.wait()).await.ok_or(ExecutorError::Cancelled)?;
        }
        prepare().await
    }

    pub(crate) fn start(self: &Arc<Self>, handle: ExecutionHandle, cancel: CancellationToken) {
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            let watch = runner.observer.watch(handle.id, &handle.work);
            let event = match watch.stage(Stage::Start, runner.start_once(&handle, &cancel)).await {
                Ok(Some(at)) => Event::Started { at, remark: runner.remark(&handle) },
                Ok(None) => Event::StartGivenUp,
                Err(error) => Event::Failed(runner.judge(&handle, error, &cancel).await),
            };
            handle.tell(event).await;
        });
    }

    /// An engine that became unreachable during a start may have started the task: the agent
    /// retries until it is back, so that no other node runs the task at the same time. None if no
    /// one wants the task any more, so that it does not start hours later.
    async fn start_once(
        &self,
        handle: &ExecutionHandle,
        cancel: &CancellationToken,
    ) -> Result<Option<Timestamp>, ExecutorError> {
        failpoint::handle("start", &handle.work.job_name);
        let executor = self.executor(&handle.work)?;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            match failpoint::around(START, || executor.start(handle.id)).await {
                Err(error @ ExecutorError::Unreachable { .. }) => {
                    debug!(%error, "the engine is unreachable; retrying the start");
                }
                outcome => return Ok(Some(outcome?)),
            }
            if cancel.run_until_cancelled(backoff.wait()).await.is_none() {
                return Ok(None);
            }
        }
    }

    /// Before its end is watched: the task runs since then, by the steady clock.
    pub(crate) fn note_start(&self, id: ExecutionId, work: &Arc<Work>, at: Timestamp) {
        self.observer.runs(id, work, clock::wall_at(at));
        if let Ok(executor) = self.executor(work) {
            executor.note_start(id, work, at);
        }
    }

    pub(crate) fn watch(self: &Arc<Self>, handle: ExecutionHandle, deadline: Option<Timestamp>) {
        // Before this agent takes anything else.
        self.files.sources.hold_again(handle.id, &handle.work.task.input_sources);
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            failpoint::handle("watch", &handle.work.job_name);
            let executor = match runner.executor(&handle.work) {
                Ok(executor) => executor,
                Err(error) => return handle.tell(Event::Failed(error.into())).await,
            };
            let mut end = std::pin::pin!(failpoint::around(WAIT, || executor.wait(handle.id)));
            let (ended, (beyond, printed)) = (CancellationToken::new(), oneshot::channel());
            let (watched, short) = runner.reserve.watch(handle.id, &handle.work);
            let ending = async {
                tokio::select! {
                    biased;
                    end = &mut end => end,
                    event = runner.made_to_end(&handle, executor, deadline, [printed, short]) => {
                        handle.tell(event).await;
                        end.await
                    }
                }
            };
            let watching = async {
                let end = tokio::select! {
                    biased;
                    end = ending => end,
                    never = runner.meters.follow(handle.id, &handle.work, executor) => match never {},
                };
                ended.cancel();
                end
            };
            let copying = Box::pin(copying::copy(&runner, &handle, executor, &ended, beyond));
            // The collection writes to the same files once the copy is written.
            let (end, ()) = tokio::join!(watching, copying);
            drop(watched);
            runner.meters.ended(handle.id, executor).await;
            let event = match end {
                Ok(exit) => {
                    runner.observer.exited(handle.id, &exit, clock::now());
                    Event::Exited(exit)
                }
                Err(error) => {
                    Event::Failed(runner.judge(&handle, error, &CancellationToken::new()).await)
                }
            };
            handle.tell(event).await;
        });
    }

    /// Why a running task must end, if it must.
    async fn made_to_end(
        &self,
        handle: &ExecutionHandle,
        executor: &dyn Executor,
        deadline: Option<Timestamp>,
        [printed, short]: [oneshot::Receiver<Failure>; 2],
    ) -> Event {
        let timeout = async {
            match deadline {
                None => std::future::pending().await,
                Some(deadline) => outlived(handle.id, executor, deadline).await,
            }
        };
        tokio::select! {
            () = timeout => Event::TimedOut,
            failure = disk_limit::overfull(self, handle, executor) => Event::Overfull(failure),
            Ok(failure) = printed => Event::Overfull(failure),
            Ok(failure) = short => Event::Overfull(failure),
        }
    }

    /// Retries until the engine has stopped the task, or the execution has `ended` anyway; the
    /// watcher reports the end of the process.
    pub(crate) fn stop(self: &Arc<Self>, handle: ExecutionHandle, ended: CancellationToken) {
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            let Ok(executor) = runner.executor(&handle.work) else { return };
            // Of a process that is killed, nothing may be left to measure.
            runner.meters.sample(handle.id, executor).await;
            let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
            let stop = || executor.stop(handle.id, runner.stop_grace);
            while let Err(error) = failpoint::around(STOP, stop).await {
                warn!(%error, "cannot stop a task; retrying");
                if ended.run_until_cancelled(backoff.wait()).await.is_none() {
                    return;
                }
            }
        });
    }

    /// Removes the container, the secrets and the inputs. The next sweep finds what could not be removed.
    pub(crate) fn discard(self: &Arc<Self>, handle: ExecutionHandle) {
        let runner = Arc::clone(self);
        self.spawn(&handle.clone(), async move {
            runner.meters.forget(handle.id);
            let executor = runner.executor(&handle.work);
            if let Ok(executor) = executor
                && let Err(error) = failpoint::around(REMOVE, || executor.remove(handle.id)).await
            {
                debug!(%error, "a container is left to the next sweep");
            }
            if !handle.work.task.secrets.is_empty() {
                runner.files.secrets.forget(handle.id).await;
            }
            runner.files.copies.forget(handle.id);
            let Ok(executor) = executor else { return };
            runner.files.sources.release(handle.id);
            let modules = executor.modules(&handle.work);
            if handle.work.task.input_sources.is_empty() && modules.is_empty() {
                return;
            }
            remove_inputs(runner.files.dirs.for_execution(handle.id), handle.id).await;
        });
    }

    /// Every log line inside names the execution.
    ///
    /// Every layer around the future would copy it, so it is boxed first.
    fn spawn(&self, handle: &ExecutionHandle, task: impl Future<Output = ()> + Send + 'static) {
        debug_assert!(size_of_val(&task) <= MAX_EFFECT_BYTES, "box its rare parts");
        let span = tracing::info_span!(
            "step",
            execution = %handle.id,
            job = %handle.work.job_id,
            node = %self.node_id
        );
        self.tasks.spawn(Box::pin(task).instrument(span));
    }

    fn executor(&self, work: &Work) -> Result<&dyn Executor, ExecutorError> {
        let engine = work.task.engine.engine_type;
        self.engines.get(engine).ok_or_else(|| {
            let reason = format!("engine '{engine}' was removed from this node's settings");
            ExecutorError::Failed(Failure::node(reason))
        })
    }
}

/// Waits for the deadline of a task. If it has passed already, the task may have ended in time while
/// no agent watched it: then its end is about to be told, and it has not outlived the deadline.
async fn outlived(id: ExecutionId, executor: &dyn Executor, deadline: Timestamp) {
    if deadline <= clock::steady() && !Box::pin(still_runs(id, executor)).await {
        std::future::pending().await
    }
    clock::reach(deadline).await;
}

/// Asks until the engine knows.
async fn still_runs(id: ExecutionId, executor: &dyn Executor) -> bool {
    let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
    loop {
        match executor.is_running(id).await {
            Ok(runs) => return runs,
            Err(error) => debug!(execution = %id, %error, "cannot see whether a task still runs"),
        }
        backoff.wait().await;
    }
}

pub(crate) async fn remove_inputs(dir: ExecutionDir, id: ExecutionId) {
    let removed = tokio::task::spawn_blocking(move || dir.remove_inputs()).await;
    if let Err(error) = removed.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        warn!(execution = %id, %error, "cannot remove the inputs");
    }
}

// === impl ExecutionHandle ===

impl ExecutionHandle {
    async fn tell(&self, event: Event) {
        self.mailbox.event(self.id, event).await;
    }
}
