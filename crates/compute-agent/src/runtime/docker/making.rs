//! Creates a task's container, idempotently.

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::engine::{DockerParams, NetworkType};
use bollard::errors::Error;
use bollard::models::{ContainerConfig, ContainerStateStatusEnum, HostConfig};
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::engine::Engine;
use super::error::{is_conflict, is_not_found};
use super::image::{Facts, Wanted};
use super::{
    ANSWER_TIMEOUT, Docker, LABEL_NODE, RETRY_FIRST, RETRY_LONGEST, container, error, image_of,
    name, params, result_directories, sandbox, targets,
};
use crate::host::backoff::Backoff;
use crate::observer;
use crate::runtime::{ExecutorError, Run, result_paths};

/// How often a sandbox that ends while a container for it is created is replaced.
const SANDBOX_TRIES: u32 = 3;

/// How often an image that vanishes while its container is created is fetched again.
const IMAGE_TRIES: u32 = 3;

// === impl Docker ===

impl Docker {
    pub(super) async fn make(
        &self,
        run: &Run,
        cancel: &CancellationToken,
    ) -> Result<(), ExecutorError> {
        let client = self.client()?;
        let params =
            params(&run.work).map_err(|reason| ExecutorError::Failed(Failure::task(reason)))?;
        let image = image_of(&params)?;
        let credential = run.granted.named_in(&run.work.task.engine.params);
        let credential = credential.map_err(ExecutorError::Failed)?;
        let (pull_policy, namespace) = (params.pull_policy, run.work.namespace.as_str());
        self.owners().insert(run.id, namespace.into());
        let wanted = Wanted { image: &image, pull_policy, namespace, credential };
        let _held = self.images.hold(&image);
        let mut tries = 1;
        loop {
            let facts = cancel
                .run_until_cancelled(observer::part(
                    "ensure image",
                    self.images.ensure(&client, wanted, &run.progress),
                ))
                .await
                .unwrap_or(Err(ExecutorError::Cancelled))?;
            let _change = self.change(namespace).await;
            let making = self.make_container(&client, run, &params, &facts);
            let made = tokio::time::timeout(ANSWER_TIMEOUT, making).await.unwrap_or_else(|_| {
                Err(error::unreachable(format!("no container was made in {ANSWER_TIMEOUT:?}")))
            });
            match made {
                // Someone removed it after it was seen: it is pulled again.
                Err(error @ ExecutorError::NoSuchImage { .. }) => {
                    self.images.missed(&image);
                    if tries == IMAGE_TRIES {
                        return Err(error);
                    }
                    tries += 1;
                }
                made => {
                    self.remarks.note(run.id, facts.remark());
                    break made?;
                }
            }
        }
        let directories = result_paths::directories(&run.work);
        result_directories::make(&client, &name(run.id), directories).await
    }

    async fn make_container(
        &self,
        client: &Engine,
        run: &Run,
        params: &DockerParams,
        image: &Facts,
    ) -> Result<(), ExecutorError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut sandbox = match run.work.task.network.network_type {
            NetworkType::None => self.sandboxes.lease(run.id),
            NetworkType::Full => Some(self.guarded.lease_or_make(client, run.id).await?),
            NetworkType::Http => None,
        };
        let is_guarded = run.work.task.network.network_type == NetworkType::Full;
        let mut tries = 1;
        loop {
            let mut body =
                container::body(run, params, image, sandbox.as_deref(), &self.capabilities);
            self.targets.apply(client, &mut body).await?;
            let disk_bytes = run.work.resources.disk;
            match self.write_limits.create(client, name(run.id), body, disk_bytes).await {
                Ok(answer) => {
                    for warning in answer.warnings {
                        debug!(execution = %run.id, warning, "docker warns");
                    }
                    self.fresh().insert(run.id, answer.id);
                    return Ok(());
                }
                Err(error) if is_conflict(&error) => {}
                Err(error @ Error::DockerResponseServerError { .. }) if is_guarded => {
                    let is_there = match &sandbox {
                        Some(sandbox) => self.guarded.runs(client, sandbox).await?,
                        None => true,
                    };
                    if is_there || tries == SANDBOX_TRIES {
                        return Err(error::of_create(error, &params.image));
                    }
                    tries += 1;
                    sandbox = Some(self.guarded.lease_or_make(client, run.id).await?);
                    continue;
                }
                // The sandbox may be the problem: retry without it.
                Err(Error::DockerResponseServerError { .. }) if sandbox.take().is_some() => {
                    self.sandboxes.give_back(run.id);
                    continue;
                }
                Err(error) => return Err(error::of_create(error, &params.image)),
            }
            // An agent that crashed here requested it before. The Engine first reserves the name
            // and then creates the container: until that succeeds or fails, only the name exists.
            match self.take_over(client, run.id).await {
                Err(ExecutorError::Gone) => backoff.wait().await,
                found => return found,
            }
        }
    }

    /// Recreates a container that did not start, where something about it can be changed. If its
    /// sandbox ended before: with a separate network namespace, or with another sandbox where the
    /// task has a network. If the image has directories where it mounts files: with the files in
    /// these. Returns whether it did.
    pub(super) async fn remake(
        &self,
        client: &Engine,
        id: ExecutionId,
        differs_in_kind: bool,
    ) -> Result<bool, ExecutorError> {
        let found = client.inspect_container(&name(id), None::<InspectContainerOptions>).await;
        let found = found.map_err(error::of_container)?;
        let Some(mut host_config) = found.host_config else { return Ok(false) };
        let config = found.config.unwrap_or_default();
        let network = self.other_network(client, id, &config, &host_config).await?;
        let needs_network = network.is_some();
        if let Some(network) = network {
            host_config.network_mode = Some(network);
        }
        let reference = config.image.clone().unwrap_or_default();
        let mut body = container::again(config, host_config);
        let has_moved = differs_in_kind && {
            let image = found.image.unwrap_or_default();
            let image = targets::Image { id: &image, reference: &reference };
            let labels = body.labels.as_ref();
            let node = labels.and_then(|labels| labels.get(LABEL_NODE)).cloned();
            let node = node.unwrap_or_default();
            self.targets.correct(client, id, image, &mut body, node).await?
        };
        if !needs_network && !has_moved {
            return Ok(false);
        }
        debug!(execution = %id, needs_network, has_moved, "recreating the container");
        let directories = container::result_directories(&body);
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        client.remove_container(&name(id), Some(options)).await.map_err(error::of_engine)?;
        if needs_network {
            self.sandboxes.give_back(id);
        }
        let options = CreateContainerOptions { name: Some(name(id)), ..Default::default() };
        client.create_container(Some(options), body).await.map_err(error::of_task)?;
        result_directories::make(client, &name(id), directories).await?;
        Ok(true)
    }

    /// The network for a container whose sandbox has ended; none while it runs, or without one.
    async fn other_network(
        &self,
        client: &Engine,
        id: ExecutionId,
        config: &ContainerConfig,
        host_config: &HostConfig,
    ) -> Result<Option<String>, ExecutorError> {
        let mode = host_config.network_mode.as_deref().unwrap_or_default();
        let Some(sandbox) = mode.strip_prefix(sandbox::JOINS) else { return Ok(None) };
        if self.sandboxes.runs(client, sandbox).await? {
            return Ok(None);
        }
        Ok(Some(match container::has_network(config) {
            true => format!("{}{}", sandbox::JOINS, self.guarded.lease_or_make(client, id).await?),
            false => "none".to_owned(),
        }))
    }

    /// Adopts an existing container, unless it joins a sandbox that is now leased to another
    /// execution: then it is removed.
    async fn take_over(&self, client: &Engine, id: ExecutionId) -> Result<(), ExecutorError> {
        let found = client.inspect_container(&name(id), None::<InspectContainerOptions>).await;
        let found = found.map_err(error::of_container)?;
        let is_new =
            found.state.and_then(|state| state.status) == Some(ContainerStateStatusEnum::CREATED);
        let mode = found.host_config.and_then(|config| config.network_mode).unwrap_or_default();
        match mode.strip_prefix(sandbox::JOINS) {
            // A started container is in its sandbox already, and the pool has seen it there.
            Some(sandbox)
                if is_new
                    && !self.sandboxes.claim(sandbox, id)
                    && !self.guarded.claim(sandbox, id) =>
            {
                let options = RemoveContainerOptions { v: true, force: true, link: false };
                match client.remove_container(&name(id), Some(options)).await {
                    Err(error) if !is_not_found(&error) => Err(error::of_engine(error)),
                    _ => Err(ExecutorError::Gone),
                }
            }
            _ => Ok(()),
        }
    }
}
