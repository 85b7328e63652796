//! Creates a task's container, idempotently.

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::engine::{DockerParams, NetworkType};
use bollard::errors::Error;
use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveContainerOptions,
};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::error::{is_conflict, is_not_found};
use super::image::Wanted;
use super::{
    ANSWER_TIMEOUT, Docker, RETRY_FIRST, RETRY_LONGEST, container, error, name, params,
    result_directories, sandbox,
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
        let credential = run.granted.of(&run.work.task.engine.params);
        let credential = credential.map_err(ExecutorError::Failed)?;
        let wanted = Wanted { params: &params, namespace: &run.work.namespace, credential };
        let _held = self.images.hold(&params.image);
        let mut tries = 1;
        loop {
            cancel
                .run_until_cancelled(observer::part(
                    "ensure image",
                    self.images.ensure(&client, wanted, &run.progress),
                ))
                .await
                .unwrap_or(Err(ExecutorError::Cancelled))?;
            let _change = self.change().await;
            let making = self.make_container(&client, run, &params);
            let made = tokio::time::timeout(ANSWER_TIMEOUT, making).await.unwrap_or_else(|_| {
                Err(error::unreachable(format!("no container was made in {ANSWER_TIMEOUT:?}")))
            });
            match made {
                // Someone removed it after it was seen: it is pulled again.
                Err(error @ ExecutorError::NoSuchImage { .. }) => {
                    self.images.missed(&params.image);
                    if tries == IMAGE_TRIES {
                        return Err(error);
                    }
                    tries += 1;
                }
                made => break made?,
            }
        }
        let directories = result_paths::directories(&run.work);
        result_directories::make(&client, &name(run.id), directories).await
    }

    async fn make_container(
        &self,
        client: &bollard::Docker,
        run: &Run,
        params: &DockerParams,
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
            let body = container::body(run, params, sandbox.as_deref());
            let disk_bytes = run.work.resources.disk;
            match self.room.create(client, name(run.id), body, disk_bytes).await {
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

    /// Recreates a container if its sandbox ended before it was started: with a network namespace of
    /// its own, or with another sandbox where the task has a network. Returns whether it did.
    pub(super) async fn remake(
        &self,
        client: &bollard::Docker,
        id: ExecutionId,
    ) -> Result<bool, ExecutorError> {
        let found = client.inspect_container(&name(id), None::<InspectContainerOptions>).await;
        let found = found.map_err(error::of_container)?;
        let Some(mut host_config) = found.host_config else { return Ok(false) };
        let mode = host_config.network_mode.take().unwrap_or_default();
        let Some(sandbox) = mode.strip_prefix(sandbox::JOINS) else { return Ok(false) };
        if self.sandboxes.runs(client, sandbox).await? {
            return Ok(false);
        }
        debug!(execution = %id, "its sandbox has ended: recreating the container");
        let config = found.config.unwrap_or_default();
        let network = match container::has_network(&config) {
            true => format!("{}{}", sandbox::JOINS, self.guarded.lease_or_make(client, id).await?),
            false => "none".to_owned(),
        };
        host_config.network_mode = Some(network);
        let body = container::again(config, host_config);
        let directories = container::result_directories(&body);
        let options = RemoveContainerOptions { v: true, force: true, link: false };
        client.remove_container(&name(id), Some(options)).await.map_err(error::of_engine)?;
        self.sandboxes.give_back(id);
        let options = CreateContainerOptions { name: Some(name(id)), ..Default::default() };
        client.create_container(Some(options), body).await.map_err(error::of_engine)?;
        result_directories::make(client, &name(id), directories).await?;
        Ok(true)
    }

    /// Adopts an existing container, unless it joins a sandbox that is now leased to another
    /// execution: then it is removed.
    async fn take_over(
        &self,
        client: &bollard::Docker,
        id: ExecutionId,
    ) -> Result<(), ExecutorError> {
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
