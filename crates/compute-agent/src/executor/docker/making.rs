//! Making a task's container, once however often it is asked for.

use api_types::ExecutionId;
use api_types::engine::{DockerParams, NetworkType};
use bollard::errors::Error;
use bollard::models::ContainerStateStatusEnum;
use bollard::query_parameters::{InspectContainerOptions, RemoveContainerOptions};
use tracing::debug;

use super::error::{is_conflict, is_not_found};
use super::{Docker, RETRY_FIRST, RETRY_LONGEST, container, error, name, sandbox};
use crate::backoff::Backoff;
use crate::executor::{ExecutorError, Run};

// === impl Docker ===

impl Docker {
    pub(super) async fn make_container(
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
