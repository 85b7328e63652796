//! The effects of executions, carried out: each as a task of its own that ends with an event.

mod places;
mod room;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, warn};

use crate::backoff::Backoff;
use crate::clock;
use crate::collect::{self, CollectError, Intake};
use crate::data_dir::{DataDir, ExecutionDir, ExecutionDirs};
use crate::disk::Disk;
use crate::execution::{Event, Failure};
use crate::executor::{Engines, Executor, ExecutorError, Run};
use crate::gpu::Inventory;
use crate::observer::{Observer, Stage};
use crate::progress::Progress;
use crate::publisher::{Publication, Publishers};
use crate::settings::Settings;
use crate::source::Sources;
use crate::supervisor::Mailbox;
use places::{COLLECT, CREATE, REMOVE, START, STOP, WAIT};

/// Waits between tries of what fails because the engine is away.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

/// A task that was not made yet waits so many times for an engine that went away, some seconds
/// in all; then another node may have it.
const PREPARE_TRIES: u32 = 5;

/// The spawned tasks of one agent: they end with it, however it ends.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    runtime: Handle,
    tracker: TaskTracker,
    stopping: CancellationToken,
}

/// What all steps share.
pub(crate) struct Steps {
    pub(crate) node_id: NodeId,
    pub(crate) engines: Arc<Engines>,
    pub(crate) gpus: Inventory,
    pub(crate) observer: Arc<Observer>,
    pub(crate) stop_grace: Duration,
    pub(crate) tasks: Tasks,
    pub(crate) files: Files,
}

/// What comes to the node's disk, what leaves it, and how much there may be.
pub(crate) struct Files {
    pub(crate) sources: Sources,
    pub(crate) publishers: Publishers,
    pub(crate) dirs: ExecutionDirs,
    disk: Disk,
    /// What a task that asks for no disk may write.
    results_max_bytes: u64,
    /// Held by whoever measures what a task wrote: one at a time, since it costs the engine.
    measuring: Semaphore,
}

/// One execution, and the way back to it.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) id: ExecutionId,
    pub(crate) work: Arc<Work>,
    /// By index.
    pub(crate) gpus: Vec<u32>,
    pub(crate) mailbox: Mailbox,
}

// === impl Tasks ===

impl Tasks {
    pub(crate) fn new(runtime: Handle) -> Self {
        Self { runtime, tracker: TaskTracker::new(), stopping: CancellationToken::new() }
    }

    /// Runs until it is done or the agent ends. What it does must bear to be cut off anywhere.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        let task = async move {
            stopping.run_until_cancelled_owned(task).await;
        };
        self.tracker.spawn_on(task, &self.runtime);
    }

    /// Runs on a thread of its own, which the agent's end waits for: what it does must heed
    /// [`stopping`](Self::stopping).
    pub(crate) fn spawn_thread(
        &self,
        name: String,
        body: impl FnOnce(&Handle) + Send + 'static,
    ) -> std::io::Result<()> {
        let (runtime, alive) = (self.runtime.clone(), self.tracker.token());
        let body = move || {
            body(&runtime);
            drop(alive);
        };
        std::thread::Builder::new().name(name).spawn(body).map(drop)
    }

    /// Cuts off every task and waits until all are gone.
    pub(crate) async fn stop(&self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    pub(crate) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }
}

// === impl Files ===

impl Files {
    pub(crate) fn new(settings: &Settings, data_dir: &DataDir, listen: SocketAddr) -> Self {
        Self {
            sources: Sources::new(settings, data_dir.cache()),
            publishers: Publishers::new(settings, data_dir.published(), listen),
            dirs: data_dir.executions(),
            disk: Disk::new(data_dir.root(), settings.disk.reserve_bytes),
            results_max_bytes: settings.results.max_bytes,
            measuring: Semaphore::new(1),
        }
    }
}

// === impl Steps ===

impl Steps {
    pub(crate) fn prepare(self: &Arc<Self>, step: Step, cancel: CancellationToken) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let event = match steps.make_ready(&step, &cancel).await {
                Ok(()) => Event::Prepared,
                Err(failure) => Event::Failed(failure),
            };
            step.tell(event).await;
        });
    }

    async fn make_ready(&self, step: &Step, cancel: &CancellationToken) -> Result<(), Failure> {
        let executor = self.executor(&step.work)?;
        let dir = self.files.dirs.of(step.id);
        let mut wanted = step.work.task.input_sources.clone();
        let inputs_count = wanted.len();
        wanted.extend(executor.modules(&step.work));
        let disk_bytes = step.work.resources.disk;
        let watch = self.observer.watch(step.id, &step.work);
        let progress = Progress::new(step.id, step.mailbox.clone());
        let fetching = self.files.sources.fetch_all(&wanted, disk_bytes, &dir, &progress);
        let fetching = async {
            let fetched = cancel.run_until_cancelled(fetching).await;
            fetched.ok_or_else(|| Failure::from(ExecutorError::Cancelled))
        };
        let mut inputs = match watch.stage(Stage::Inputs, async { fetching.await? }).await {
            Ok(inputs) => inputs,
            Err(failure) => {
                // At once: on a disk that they fill, the failure could not even be written down.
                remove_inputs(dir, step.id).await;
                return Err(failure);
            }
        };
        let modules = inputs.split_off(inputs_count);
        let modules = modules.into_iter().map(|module| module.source).collect();
        let work = Arc::clone(&step.work);
        let gpus = self.gpus.device_ids(&step.gpus);
        let (id, node_id) = (step.id, self.node_id);
        let run = Run { id, node_id, work, inputs, modules, gpus, progress };
        watch.stage(Stage::Make, self.make(&run, cancel)).await
    }

    async fn make(&self, run: &Run, cancel: &CancellationToken) -> Result<(), Failure> {
        let executor = self.executor(&run.work)?;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let prepare = || failpoint::around(CREATE, || executor.prepare(run, cancel));
        for _ in 1..PREPARE_TRIES {
            match prepare().await {
                Err(error @ ExecutorError::Unreachable { .. }) => {
                    debug!(%error, "preparing waits for the engine");
                }
                outcome => return Ok(outcome?),
            }
            cancel.run_until_cancelled(backoff.wait()).await.ok_or(ExecutorError::Cancelled)?;
        }
        Ok(prepare().await?)
    }

    pub(crate) fn start(self: &Arc<Self>, step: Step) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let watch = steps.observer.watch(step.id, &step.work);
            let event = match watch.stage(Stage::Start, steps.start_once(&step)).await {
                Ok(at) => Event::Started { at },
                Err(failure) => Event::Failed(failure),
            };
            step.tell(event).await;
        });
    }

    /// An engine that went away in the middle may have started the task: it is asked again until
    /// it is back, so that no other node runs the task beside it.
    async fn start_once(&self, step: &Step) -> Result<Timestamp, Failure> {
        let executor = self.executor(&step.work)?;
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            match failpoint::around(START, || executor.start(step.id)).await {
                Err(error @ ExecutorError::Unreachable { .. }) => {
                    debug!(%error, "starting waits for the engine");
                }
                outcome => return Ok(outcome?),
            }
            backoff.wait().await;
        }
    }

    pub(crate) fn watch(self: &Arc<Self>, step: Step, deadline: Option<Timestamp>) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let executor = match steps.executor(&step.work) {
                Ok(executor) => executor,
                Err(failure) => return step.tell(Event::Failed(failure)).await,
            };
            let mut end = std::pin::pin!(failpoint::around(WAIT, || executor.wait(step.id)));
            let end = tokio::select! {
                biased;
                end = &mut end => end,
                event = steps.made_to_end(&step, executor, deadline) => {
                    step.tell(event).await;
                    end.await
                }
            };
            let event = match end {
                Ok(exit) => {
                    steps.observer.exited(step.id, &exit, clock::now());
                    Event::Exited(exit)
                }
                Err(error) => Event::Failed(error.into()),
            };
            step.tell(event).await;
        });
    }

    /// Why a task that runs has to end, if ever.
    async fn made_to_end(
        &self,
        step: &Step,
        executor: &dyn Executor,
        deadline: Option<Timestamp>,
    ) -> Event {
        let timeout = async {
            match deadline {
                None => std::future::pending().await,
                Some(deadline) => tokio::time::sleep(deadline.since(clock::now())).await,
            }
        };
        tokio::select! {
            () = timeout => Event::TimedOut,
            failure = room::overfull(self, step, executor) => Event::Overfull(failure),
        }
    }

    /// Keeps asking until the engine has done it; that the process ended is told by the watch.
    pub(crate) fn stop(self: &Arc<Self>, step: Step) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let Ok(executor) = steps.executor(&step.work) else { return };
            let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
            let stop = || executor.stop(step.id, steps.stop_grace);
            while let Err(error) = failpoint::around(STOP, stop).await {
                warn!(%error, "a task cannot be stopped; trying again");
                backoff.wait().await;
            }
        });
    }

    pub(crate) fn collect(self: &Arc<Self>, step: Step, exit_code: i32) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let watch = steps.observer.watch(step.id, &step.work);
            let event = match watch.within(steps.collect_whole(&step, exit_code)).await {
                Ok(collected) => Event::Collected(collected),
                Err(failure) => Event::Failed(failure),
            };
            step.tell(event).await;
        });
    }

    async fn collect_whole(
        &self,
        step: &Step,
        exit_code: i32,
    ) -> Result<crate::execution::Collected, Failure> {
        let executor = self.executor(&step.work)?;
        let dir = self.files.dirs.of(step.id);
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        loop {
            let run = Publication {
                id: step.id,
                node_id: self.node_id,
                work: &step.work,
                exit_code,
                dir: &dir,
            };
            let limit = room::limit(self, step).await;
            let intake = || Intake::new(&self.files.disk, limit);
            let collect = || collect::collect(executor, &self.files.publishers, &run, intake());
            match failpoint::around(COLLECT, collect).await {
                Err(CollectError::Executor(error @ ExecutorError::Unreachable { .. })) => {
                    debug!(%error, "collecting waits for the engine");
                }
                outcome => return Ok(outcome?),
            }
            backoff.wait().await;
        }
    }

    /// Removes the container and the inputs. What fails here is found by the next sweep.
    pub(crate) fn discard(self: &Arc<Self>, step: Step) {
        let steps = Arc::clone(self);
        self.spawn(&step.clone(), async move {
            let Ok(executor) = steps.executor(&step.work) else { return };
            if let Err(error) = failpoint::around(REMOVE, || executor.remove(step.id)).await {
                debug!(%error, "a container is left to the next sweep");
            }
            let modules = executor.modules(&step.work);
            if step.work.task.input_sources.is_empty() && modules.is_empty() {
                return;
            }
            remove_inputs(steps.files.dirs.of(step.id), step.id).await;
        });
    }

    /// Whatever is logged on the way names the execution.
    fn spawn(&self, step: &Step, task: impl Future<Output = ()> + Send + 'static) {
        let span = tracing::info_span!(
            "step",
            execution = %step.id,
            job = %step.work.job_id,
            node = %self.node_id
        );
        self.tasks.spawn(task.instrument(span));
    }

    fn executor(&self, work: &Work) -> Result<&dyn Executor, Failure> {
        let engine = work.task.engine.engine_type;
        self.engines.get(engine).ok_or_else(|| {
            Failure::node(format!("engine '{engine}' was taken out of this node's settings"))
        })
    }
}

async fn remove_inputs(dir: ExecutionDir, id: ExecutionId) {
    let removed = tokio::task::spawn_blocking(move || dir.remove_inputs()).await;
    if let Err(error) = removed.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
        warn!(execution = %id, %error, "the inputs cannot be removed");
    }
}

// === impl Step ===

impl Step {
    async fn tell(&self, event: Event) {
        self.mailbox.event(self.id, event).await;
    }
}
