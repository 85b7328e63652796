//! Tasks as containers of a Docker Engine.
//!
//! A container bears the name of its execution, so that making it twice is a conflict and not a
//! second run, and labels that tell whose it is, so that an agent that comes back finds its own.
//! A container is started only while it is in the state `created`: one that has run stays as it
//! ended until its output is taken in.
//!
//! Output is kept by the Engine's `local` log driver: it survives the agent, keeps bytes that are
//! not UTF-8 as they are (`json-file` does not), and is bounded.
//!
//! Each running task costs one connection to the Engine, on which its end is waited for.

mod container;
mod error;
mod image;
mod making;
mod output;
mod result_directories;
mod room;
mod sandbox;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use api_types::engine::{DockerParams, NetworkType};
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bollard::API_DEFAULT_VERSION;
use bollard::models::{ContainerState, ContainerStateStatusEnum};
use bollard::query_parameters::{
    InspectContainerOptions, ListContainersOptions, RemoveContainerOptions, StopContainerOptions,
    WaitContainerOptions,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{Executor, ExecutorError, OutputChunk, Run};
use crate::backoff::Backoff;
use crate::clock;
use crate::execution::{Exit, NO_EXIT_CODE};
use crate::settings::DockerSettings;
use error::{is_conflict, is_not_found};
use sandbox::Sandboxes;

/// The execution a container belongs to.
pub(crate) const LABEL_EXECUTION: &str = "service.org/execution";
/// The job its execution belongs to.
pub(crate) const LABEL_JOB: &str = "service.org/job";
/// The node whose agent made it.
pub(crate) const LABEL_NODE: &str = "service.org/node";

/// How long one answer of the Engine may take; the Engine counts as away beyond it. Making a
/// container on a busy disk was seen to take several seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// A probe that takes longer has found an Engine that is of no use right now.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// So many containers are made, started or removed at once, the others wait: beyond four to
/// eight the Engine only gets slower.
const MAX_CHANGES_AT_ONCE: usize = 8;

/// So many times in a row the Engine may answer with an error when it is asked how a task ended,
/// over half a minute or more; then the task is given up.
const MAX_WAIT_REFUSALS: u32 = 12;

/// Waits between tries to reach an Engine that went away while tasks ran.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

pub(crate) struct Docker {
    host: String,
    /// None until the Engine has answered once.
    client: RwLock<Option<bollard::Docker>>,
    changes: Semaphore,
    images: image::Images,
    sandboxes: Sandboxes,
    room: room::Room,
    /// Containers that this process made and was not asked to start yet. Nobody else starts them,
    /// so that starting them takes no look at their state first.
    fresh: Mutex<HashSet<ExecutionId>>,
}

// === impl Docker ===

impl Docker {
    /// `record` is the file that keeps which images were pulled.
    pub(crate) fn new(settings: &DockerSettings, node_id: NodeId, record: &Path) -> Self {
        Self {
            host: settings.host.clone(),
            client: RwLock::new(None),
            changes: Semaphore::new(MAX_CHANGES_AT_ONCE),
            images: image::Images::new(settings, record),
            sandboxes: Sandboxes::new(node_id, settings.sandbox_pool),
            room: room::Room::default(),
            fresh: Mutex::default(),
        }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Keeps the pool of network sandboxes, for ever.
    pub(crate) async fn keep_sandboxes(&self) {
        self.sandboxes.keep(|| self.client().ok()).await;
    }

    /// The Engine missed a probe: what was idle is looked at again before anyone gets it.
    pub(crate) fn doubt_sandboxes(&self) {
        self.sandboxes.doubt();
    }

    /// Whether the Engine answers, and with which API version.
    pub(crate) async fn probe(&self) -> Result<String, ExecutorError> {
        let client = self.connect()?;
        // Another release may answer after the Engine was away, so the version is agreed anew.
        let answer = tokio::time::timeout(PROBE_TIMEOUT, client.negotiate_version()).await;
        let client = match answer {
            Ok(answer) => answer.map_err(error::of_engine)?,
            Err(_) => return Err(error::unreachable(format!("no answer in {PROBE_TIMEOUT:?}"))),
        };
        let version = client.client_version().to_string();
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Some(client);
        Ok(version)
    }

    fn connect(&self) -> Result<bollard::Docker, ExecutorError> {
        let timeout = ANSWER_TIMEOUT.as_secs();
        let client = if self.host.starts_with("tcp://") || self.host.starts_with("http://") {
            bollard::Docker::connect_with_http(&self.host, timeout, API_DEFAULT_VERSION)
        } else {
            bollard::Docker::connect_with_unix(&self.host, timeout, API_DEFAULT_VERSION)
        };
        client.map_err(error::of_engine)
    }

    pub(crate) fn client(&self) -> Result<bollard::Docker, ExecutorError> {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner);
        client.clone().ok_or_else(|| error::unreachable("it has not answered yet".to_owned()))
    }

    async fn start_once(&self, id: ExecutionId) -> Result<Timestamp, ExecutorError> {
        let client = self.client()?;
        // Once: whoever asks again does not know whether the first try started it.
        if !self.fresh().remove(&id) {
            let state = self.state(id).await?;
            if state.status != Some(ContainerStateStatusEnum::CREATED) {
                return Ok(moment(state.started_at.as_deref()).unwrap_or_else(clock::now));
            }
        }
        let _change = self.change().await;
        let mut started = client.start_container(&name(id), None).await;
        if started.as_ref().is_err_and(is_conflict) && self.sandboxes.revive(&client, id).await {
            started = client.start_container(&name(id), None).await;
        }
        started.map(|()| clock::now()).map_err(error::of_start)
    }

    fn fresh(&self) -> MutexGuard<'_, HashSet<ExecutionId>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn wait_for_end(&self, id: ExecutionId) -> Result<Exit, ExecutorError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut refusals = 0;
        loop {
            match self.end(id).await {
                Err(ExecutorError::Unreachable { reason, .. }) => {
                    debug!(execution = %id, reason, "docker is away while a task runs");
                }
                // An Engine that is stopping or starting answers all kinds of things.
                Err(ExecutorError::Failed(failure)) if refusals < MAX_WAIT_REFUSALS => {
                    refusals += 1;
                    debug!(execution = %id, failure.message, "docker cannot tell of a task's end");
                }
                // After it was away the Engine may name an end before it knows of it.
                Ok(None) => {}
                Ok(Some(exit)) => {
                    // With its first process the kernel has ended all others.
                    self.sandboxes.give_back(id);
                    return Ok(exit);
                }
                Err(error) => return Err(error),
            }
            backoff.wait().await;
        }
    }

    /// Waits on one connection; none when the container still runs at its end.
    async fn end(&self, id: ExecutionId) -> Result<Option<Exit>, ExecutorError> {
        let client = self.client()?;
        let options = WaitContainerOptions { condition: "not-running".to_owned() };
        let name = name(id);
        let mut answers = std::pin::pin!(client.wait_container(&name, Some(options)));
        match answers.next().await {
            // bollard makes an error of an exit code; the state below has it as well.
            Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) | None => {}
            Some(Err(error)) => return Err(error::of_container(error)),
        }
        let state = self.state(id).await?;
        let still_runs = state.running == Some(true) || state.restarting == Some(true);
        Ok((!still_runs).then(|| Exit {
            code: state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(NO_EXIT_CODE),
            out_of_memory: state.oom_killed == Some(true),
            fault: None,
        }))
    }

    async fn state(&self, id: ExecutionId) -> Result<ContainerState, ExecutorError> {
        let container = self
            .client()?
            .inspect_container(&name(id), None::<InspectContainerOptions>)
            .await
            .map_err(error::of_container)?;
        container
            .state
            .ok_or_else(|| error::unreachable("it says nothing of a container's state".to_owned()))
    }

    async fn stop_within(&self, id: ExecutionId, grace: Duration) -> Result<(), ExecutorError> {
        let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
        // The Engine answers when the process has ended, which takes up to the whole grace.
        let client = self.client()?.with_timeout(grace + ANSWER_TIMEOUT);
        let options = StopContainerOptions { t: Some(seconds), ..Default::default() };
        match client.stop_container(&name(id), Some(options)).await {
            Err(error) if !is_not_found(&error) => Err(error::of_engine(error)),
            _ => Ok(()),
        }
    }

    async fn remove_whole(&self, id: ExecutionId) -> Result<(), ExecutorError> {
        self.fresh().remove(&id);
        let client = self.client()?;
        // With its anonymous volumes, which an image can ask for and nobody else would remove.
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let _change = self.change().await;
        match client.remove_container(&name(id), Some(options)).await {
            // Its removal is under way: what it holds is free when it is no longer listed.
            Err(error) if is_conflict(&error) => return Ok(()),
            Err(error) if !is_not_found(&error) => return Err(error::of_engine(error)),
            _ => {}
        }
        self.sandboxes.give_back(id);
        self.images.look();
        Ok(())
    }

    /// Removes images that are too much, for ever.
    pub(crate) async fn collect_images(&self) {
        self.images.collect(|| self.client()).await;
    }

    async fn list_own(&self, node_id: NodeId) -> Result<Vec<ExecutionId>, ExecutorError> {
        let filter = format!("{LABEL_NODE}={node_id}");
        let options = ListContainersOptions {
            all: true,
            filters: Some(HashMap::from([("label".to_owned(), vec![filter])])),
            ..Default::default()
        };
        let containers =
            self.client()?.list_containers(Some(options)).await.map_err(error::of_engine)?;
        Ok(containers
            .into_iter()
            .filter_map(|container| container.labels?.get(LABEL_EXECUTION)?.parse().ok())
            .collect())
    }

    /// Holds one of the [`MAX_CHANGES_AT_ONCE`] places.
    async fn change(&self) -> Option<tokio::sync::SemaphorePermit<'_>> {
        self.changes.acquire().await.ok()
    }
}

impl Executor for Docker {
    fn admit(&self, work: &Work) -> Result<(), String> {
        let params = params(work)?;
        if params.image.is_empty() {
            return Err("the docker engine needs an Image in its Params".to_owned());
        }
        if !params.working_directory.is_empty() && !params.working_directory.starts_with('/') {
            return Err(format!(
                "WorkingDirectory '{}' is not an absolute path",
                params.working_directory
            ));
        }
        self.images.admit(params.pull_policy)?;
        match work.task.network.network_type {
            NetworkType::None | NetworkType::Full => Ok(()),
            NetworkType::Http => Err("network type 'HTTP' is not supported on this node; \
                                      supported: None, Full"
                .to_owned()),
        }
    }

    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        self.make(run, cancel).boxed()
    }

    fn start(&self, id: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        self.start_once(id).boxed()
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        self.wait_for_end(id).boxed()
    }

    fn stop(&self, id: ExecutionId, grace: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.stop_within(id, grace).boxed()
    }

    fn logs(
        &self,
        id: ExecutionId,
        follow: bool,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        match self.client() {
            Ok(client) => output::of_container(client, name(id), follow),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    fn copy_out<'a>(
        &'a self,
        id: ExecutionId,
        path: &'a str,
    ) -> BoxStream<'a, Result<Bytes, ExecutorError>> {
        match self.client() {
            Ok(client) => output::of_path(&client, &name(id), path),
            Err(error) => stream::once(async { Err(error) }).boxed(),
        }
    }

    fn written_bytes(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<u64>, ExecutorError>> {
        async move { room::written_bytes(self.client()?, name(id)).await }.boxed()
    }

    fn remove(&self, id: ExecutionId) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.remove_whole(id).boxed()
    }

    fn list(&self, node_id: NodeId) -> BoxFuture<'_, Result<Vec<ExecutionId>, ExecutorError>> {
        self.list_own(node_id).boxed()
    }
}

/// The name of an execution's container.
fn name(id: ExecutionId) -> String {
    format!("execution-{id}")
}

fn params(work: &Work) -> Result<DockerParams, String> {
    serde_json::from_value(work.task.engine.params.clone().into())
        .map_err(|error| format!("the Params of the docker engine cannot be read: {error}"))
}

/// A moment as the Engine writes it; none for its zero value, the year 1.
fn moment(text: Option<&str>) -> Option<Timestamp> {
    text.and_then(Timestamp::parse).filter(|moment| *moment > Timestamp::ZERO)
}
