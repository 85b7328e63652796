//! Runs tasks as containers of a Docker Engine.
//!
//! A container is named after its execution, so that creating it twice is a conflict rather than a
//! second run, and its labels name its owner, so that a restarted agent finds its own containers.
//! A container is started only in the state `created`: one that has run stays as it ended until
//! its output is collected.
//!
//! The Engine's `local` log driver keeps the output: it survives the agent, preserves bytes that
//! are not UTF-8 (`json-file` does not), and has a size limit.
//!
//! Each running task costs two connections to the Engine: one waits for its end, and after half a
//! second another one copies its output.

mod container;
mod ending;
mod engine;
mod error;
mod growth;
mod host_paths;
mod image;
mod labels;
mod making;
mod meter;
mod output;
mod remarks;
mod result_directories;
mod sandbox;
mod specified;
mod targets;
mod twin;
mod usage;
mod volumes;
mod write_limits;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use agent_core::execution::Exit;
use api_types::protocol::Work;
use api_types::{ExecutionId, NodeId, Timestamp};
use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::{
    ListContainersOptions, RemoveContainerOptions, StopContainerOptions,
};
use bytes::Bytes;
use futures_util::future::{BoxFuture, FutureExt, TryFutureExt};
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio_util::sync::CancellationToken;

use super::turns::{Turn, Turns};
use super::twin::Twin;
use super::{Availability, Executor, ExecutorError, OutputChunk, OutputKeeping, OutputRange, Run};
use crate::host::cgroup::Reading;
use crate::host::clock;
use crate::host::device::Device;
use crate::host::settings::Settings;
use crate::node::tasks::Tasks;
use bollard::errors::Error;
use engine::Engine;
use error::{is_conflict, is_not_found};
pub(crate) use labels::{LABEL_EXECUTION, LABEL_NODE, LABEL_RESULTS};
use sandbox::Sandboxes;
use specified::{image_of, moment, params};
use twin::Twins;

/// Time limit for one response of the Engine, after which it counts as unreachable. Creating a
/// container on a busy disk has taken several seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

/// An Engine that takes longer for a probe is not usable right now.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Containers created, started or removed concurrently; others wait, and their namespaces take turns.
/// With more than four to eight the Engine only gets slower.
const MAX_CHANGES_AT_ONCE: usize = 8;

/// Delays between attempts to reach an Engine that became unreachable while tasks run.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(5);

pub(crate) struct Docker {
    host: String,
    /// Whether tasks may ask for a network.
    allow_network: bool,
    /// None until the Engine has responded once.
    client: RwLock<Option<Engine>>,
    changes: Turns,
    /// The namespaces of the containers that this process made.
    owners: Mutex<HashMap<ExecutionId, Arc<str>>>,
    images: image::Images,
    targets: targets::Targets,
    remarks: remarks::Remarks,
    host_paths: host_paths::HostPaths,
    /// Of root in containers.
    capabilities: Vec<String>,
    /// For tasks without network.
    sandboxes: Sandboxes,
    /// For tasks with a network.
    guarded: Sandboxes,
    twins: Twins,
    write_limits: write_limits::WriteLimits,
    meter: Arc<meter::Meter>,
    tasks: Tasks,
    /// Containers that this process created and has not started yet, with the Engine's IDs. Only
    /// this process starts them, so starting them needs no state check first.
    fresh: Mutex<HashMap<ExecutionId, String>>,
}

// === impl Docker ===

impl Docker {
    /// `record` is the file that records the pulled images.
    pub(crate) fn new(settings: &Settings, node_id: NodeId, record: &Path, tasks: Tasks) -> Self {
        Self {
            host: settings.docker.host.clone(),
            allow_network: settings.allow_network,
            client: RwLock::new(None),
            changes: Turns::new(MAX_CHANGES_AT_ONCE),
            owners: Mutex::default(),
            images: image::Images::new(settings, record),
            targets: targets::Targets::new(),
            remarks: remarks::Remarks::default(),
            host_paths: host_paths::HostPaths::new(settings),
            capabilities: settings.docker.capabilities.clone(),
            sandboxes: Sandboxes::new(node_id, settings),
            guarded: Sandboxes::guarded(node_id, settings),
            twins: Twins::new(node_id),
            write_limits: write_limits::WriteLimits::default(),
            meter: Arc::default(),
            tasks,
            fresh: Mutex::default(),
        }
    }

    /// Whether the Engine responds, and with which API version.
    async fn negotiate(&self) -> Result<String, ExecutorError> {
        let client = Engine::new(&self.host, ANSWER_TIMEOUT);
        // Another release may respond after an outage, so the version is negotiated again.
        let answer = tokio::time::timeout(PROBE_TIMEOUT, client.negotiate()).await;
        let client = match answer {
            Ok(answer) => answer.map_err(error::of_engine)?,
            Err(_) => return Err(error::unreachable(format!("no answer in {PROBE_TIMEOUT:?}"))),
        };
        let version = client.version();
        *self.client.write().unwrap_or_else(PoisonError::into_inner) = Some(client);
        Ok(version)
    }

    pub(crate) fn client(&self) -> Result<Engine, ExecutorError> {
        let client = self.client.read().unwrap_or_else(PoisonError::into_inner);
        client.clone().ok_or_else(|| error::unreachable("it has not answered yet".to_owned()))
    }

    async fn start_once(&self, id: ExecutionId) -> Result<Timestamp, ExecutorError> {
        let client = self.client()?;
        // Only once: a repeated request cannot tell whether the first one started it.
        let container_id = self.fresh().remove(&id);
        if container_id.is_none() {
            let state = self.state(id).await?;
            if state.status != Some(ContainerStateStatusEnum::CREATED) {
                let started_at = moment(state.started_at.as_deref());
                return Ok(started_at.map_or_else(clock::steady, clock::steady_at));
            }
        }
        let _change = self.change_of(id).await;
        let mut started = match &container_id {
            Some(container_id) => self.start_metered(&client, id, container_id).await,
            None => client.start_container(&name(id)).await,
        };
        if let Err(error @ Error::DockerResponseServerError { .. }) = &started
            && self.remake(&client, id, targets::differ_in_kind(error)).await?
        {
            self.meter.forget(id);
            started = client.start_container(&name(id)).await;
        }
        started.map(|()| clock::steady()).map_err(error::of_start)
    }

    fn fresh(&self) -> MutexGuard<'_, HashMap<ExecutionId, String>> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn stop_within(&self, id: ExecutionId, grace: Duration) -> Result<(), ExecutorError> {
        let seconds = i32::try_from(grace.as_secs()).unwrap_or(i32::MAX);
        // The Engine responds when the process has ended, which may take the whole grace period.
        let client = self.client()?.with_timeout(grace + ANSWER_TIMEOUT);
        let options = StopContainerOptions { t: Some(seconds), ..Default::default() };
        match client.stop_container(&name(id), Some(options)).await {
            Err(error) if !is_not_found(&error) => Err(error::of_engine(error)),
            _ => Ok(()),
        }
    }

    async fn remove_whole(&self, id: ExecutionId) -> Result<(), ExecutorError> {
        self.fresh().remove(&id);
        self.meter.forget(id);
        self.remarks.forget(id);
        let client = self.client()?;
        // With its anonymous volumes, which an image can declare and which nothing else removes.
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        let _change = self.change_of(id).await;
        match client.remove_container(&name(id), Some(options)).await {
            // A removal is in progress: its resources are free when it is no longer listed.
            Err(error) if is_conflict(&error) => return Ok(()),
            Err(error) if !is_not_found(&error) => return Err(error::of_engine(error)),
            _ => {}
        }
        self.owners().remove(&id);
        self.sandboxes.give_back(id);
        self.guarded.give_back(id);
        self.images.collect_soon();
        Ok(())
    }

    async fn list_own(&self, node_id: NodeId) -> Result<Vec<ExecutionId>, ExecutorError> {
        self.targets.clear(&self.client()?, node_id).await;
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

    /// Holds one of the [`MAX_CHANGES_AT_ONCE`] permits, for a container of this namespace.
    async fn change(&self, namespace: &str) -> Turn {
        self.changes.take(namespace).await
    }

    /// The same for a container that exists. Those that an earlier agent made count as of one
    /// namespace.
    async fn change_of(&self, id: ExecutionId) -> Turn {
        let owner = self.owners().get(&id).cloned();
        self.change(owner.as_deref().unwrap_or_default()).await
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<ExecutionId, Arc<str>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Executor for Docker {
    fn availability(&self) -> Availability {
        Availability::Probed
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ExecutorError>> {
        async {
            match self.negotiate().await {
                Ok(version) => Ok(format!("API {version} at {}", self.host)),
                Err(error) => {
                    // Every idle sandbox is inspected again before a task gets it.
                    self.sandboxes.doubt();
                    self.guarded.doubt();
                    Err(error)
                }
            }
        }
        .boxed()
    }

    fn run_twin<'a>(&'a self, twin: &'a Twin) -> BoxFuture<'a, Result<(), ExecutorError>> {
        self.twins.run(self, twin).boxed()
    }

    /// Maintains the pools of network sandboxes, collects unused images, and removes the twins that
    /// an earlier agent left.
    fn run_in_background(&self) -> BoxFuture<'_, ()> {
        async {
            let sandboxes = self.sandboxes.keep(|| self.client().ok());
            let guarded = self.guarded.keep(|| self.client().ok());
            let images = self.images.collect(|| self.client());
            let twins = self.twins.remove_those_of_an_earlier_agent(|| self.client());
            tokio::join!(sandboxes, guarded, images, twins);
        }
        .boxed()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async {
            if let Ok(client) = self.client() {
                tokio::join!(self.sandboxes.close(&client), self.guarded.close(&client));
            }
        }
        .boxed()
    }

    fn admit(&self, work: &Work) -> Result<(), String> {
        let params = params(work)?;
        if !params.working_directory.is_empty() && !params.working_directory.starts_with('/') {
            return Err(format!(
                "WorkingDirectory '{}' is not an absolute path",
                params.working_directory
            ));
        }
        self.images.admit(params.pull_policy)?;
        specified::admit_network(work.task.network.network_type, self.allow_network)
    }

    fn prepare<'a>(
        &'a self,
        run: &'a Run,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<(), ExecutorError>> {
        self.make(run, cancel).map_err(|error| self.host_paths.hide_in(error)).boxed()
    }

    fn start(&self, id: ExecutionId) -> BoxFuture<'_, Result<Timestamp, ExecutorError>> {
        let hidden = move |error| self.remarks.explain(id, self.host_paths.hide_in(error));
        self.start_once(id).map_err(hidden).boxed()
    }

    fn remark(&self, id: ExecutionId) -> Option<String> {
        self.remarks.get(id)
    }

    fn wait(&self, id: ExecutionId) -> BoxFuture<'_, Result<Exit, ExecutorError>> {
        async move {
            self.meter_adopted(id).await;
            self.wait_for_end(id).await
        }
        .boxed()
    }

    fn is_running(&self, id: ExecutionId) -> BoxFuture<'_, Result<bool, ExecutorError>> {
        async move { Ok(self.state(id).await?.running == Some(true)) }.boxed()
    }

    fn usage(&self, id: ExecutionId) -> BoxFuture<'_, Result<Option<Reading>, ExecutorError>> {
        self.usage_now(id).boxed()
    }

    fn stop(&self, id: ExecutionId, grace: Duration) -> BoxFuture<'_, Result<(), ExecutorError>> {
        self.stop_within(id, grace).boxed()
    }

    fn output_keeping(&self) -> OutputKeeping {
        OutputKeeping::WithEngine { piece_bytes: container::LOG_ENTRY_BYTES }
    }

    fn logs(
        &self,
        id: ExecutionId,
        range: OutputRange,
    ) -> BoxStream<'_, Result<OutputChunk, ExecutorError>> {
        match self.client() {
            Ok(client) => output::of_container(client, name(id), range),
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
        async move { write_limits::written_bytes(self.client()?, name(id)).await }.boxed()
    }

    fn task_directory(&self) -> BoxFuture<'_, Option<PathBuf>> {
        self.engine_directory().boxed()
    }

    fn hidden<'a>(&'a self, id: ExecutionId, device: &'a Device) -> BoxFuture<'a, super::Hidden> {
        self.hidden_of(id, device).boxed()
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

#[cfg(test)]
mod tests;
