//! Making a task's container, once however often it is asked for.

use api_types::ExecutionId;
use api_types::engine::{DockerParams, NetworkType};
use bollard::errors::Error;
use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::{InspectContainerOptions, RemoveContainerOptions};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::error::{is_conflict, is_not_found};
use super::{
    ANSWER_TIMEOUT, Docker, RETRY_FIRST, RETRY_LONGEST, container, error, name, params,
    result_directories, sandbox,
};
use crate::backoff::Backoff;
use crate::execution::Failure;
use crate::executor::{ExecutorError, Run};
use crate::observer;

/// So often an image that vanishes while its container is made is fetched.
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
        let _held = self.images.hold(&params.image);
        let mut tries = 1;
        loop {
            cancel
                .run_until_cancelled(observer::part(
                    "ensure image",
                    self.images.ensure(&client, &params, &run.progress),
                ))
                .await
                .unwrap_or(Err(ExecutorError::Cancelled))?;
            let _change = self.change().await;
            let making = self.make_container(&client, run, &params);
            let made = tokio::time::timeout(ANSWER_TIMEOUT, making).await.unwrap_or_else(|_| {
                Err(error::unreachable(format!("no container was made in {ANSWER_TIMEOUT:?}")))
            });
            match made {
                // Someone removed it since it was looked for: it is pulled again.
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
        result_directories::make(&client, &name(run.id), &run.work).await
    }

    async fn make_container(
        &self,
        client: &bollard::Docker,
        run: &Run,
        params: &DockerParams,
    ) -> Result<(), ExecutorError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut sandbox = match run.work.task.network.network_type {
            NetworkType::None => self.sandboxes.lend(run.id),
            NetworkType::Full | NetworkType::Http => None,
        };
        loop {
            let body = container::body(run, params, sandbox.as_deref());
            let disk_bytes = run.work.resources.disk;
            match self.room.create(client, name(run.id), body, disk_bytes).await {
                Ok(answer) => {
                    for warning in answer.warnings {
                        debug!(execution = %run.id, warning, "docker warns");
                    }
                    self.fresh().insert(run.id);
                    return Ok(());
                }
                Err(error) if is_conflict(&error) => {}
                // It may be the sandbox that is wrong: once more, in the ordinary way.
                Err(Error::DockerResponseServerError { .. }) if sandbox.take().is_some() => {
                    self.sandboxes.give_back(run.id);
                    continue;
                }
                Err(error) => return Err(error::of_create(error, &params.image)),
            }
            // An agent that died here asked for it before. The Engine takes the name first and
            // makes the container then: until that is done, or has failed, there is only a name.
            match self.take_over(client, run.id).await {
                Err(ExecutorError::Gone) => backoff.wait().await,
                found => return found,
            }
        }
    }

    /// Takes a container as it is found, unless it joins a sandbox that somebody else has by now:
    /// then it is removed, and is gone.
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
            // One that was started is in its sandbox already, and was listed there.
            Some(sandbox) if is_new && !self.sandboxes.claim(sandbox, id) => {
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
