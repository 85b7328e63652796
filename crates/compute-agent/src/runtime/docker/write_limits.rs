//! Limits and measures what a container writes, as far as the Engine can.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bollard::errors::Error;
use bollard::models::{ContainerCreateBody, ContainerCreateResponse};
use bollard::query_parameters::{CreateContainerOptions, InspectContainerOptions};
use tracing::warn;

use super::engine::Engine;
use super::{error, volumes};
use crate::runtime::ExecutorError;

/// Whether the Engine's storage driver supports a size limit: `overlay2` on xfs with project
/// quotas does, most others do not.
#[derive(Debug, Default)]
pub(super) struct WriteLimits {
    is_without_sizes: AtomicBool,
}

// === impl WriteLimits ===

impl WriteLimits {
    /// Creates a container that may write this much, 0 for no limit, where the Engine can enforce
    /// it.
    pub(super) async fn create(
        &self,
        client: &Engine,
        name: String,
        body: ContainerCreateBody,
        disk_bytes: u64,
    ) -> Result<ContainerCreateResponse, Error> {
        let options = || CreateContainerOptions { name: Some(name.clone()), ..Default::default() };
        if disk_bytes > 0 && !self.is_without_sizes.load(Ordering::Relaxed) {
            match client.create_container(Some(options()), sized(body.clone(), disk_bytes)).await {
                Err(error) if is_about_sizes(&error) => self.tell_once(&error),
                answer => return answer,
            }
        }
        client.create_container(Some(options()), body).await
    }

    fn tell_once(&self, error: &Error) {
        if !self.is_without_sizes.swap(true, Ordering::Relaxed) {
            warn!(
                %error,
                "docker's storage driver cannot limit what a container writes; it is measured \
                 while the task runs instead"
            );
        }
    }
}

fn sized(mut body: ContainerCreateBody, disk_bytes: u64) -> ContainerCreateBody {
    let size = HashMap::from([("size".to_owned(), disk_bytes.to_string())]);
    body.host_config.get_or_insert_default().storage_opt = Some(size);
    body
}

/// Drivers word it differently, but all name the option.
fn is_about_sizes(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { message, .. }
        if message.to_ascii_lowercase().replace(' ', "-").contains("storage-opt"))
}

/// The size of the container's own layer, and of the volumes that its image declares.
pub(super) async fn written_bytes(
    client: Engine,
    name: String,
) -> Result<Option<u64>, ExecutorError> {
    let options = InspectContainerOptions { size: true };
    let container = client.inspect_container(&name, Some(options)).await;
    let container = container.map_err(error::of_container)?;
    let volumes = volumes::mounted_in(&container);
    let volumes_bytes = match volumes.is_empty() {
        true => 0,
        false => volumes::written_bytes(&client, &volumes).await?,
    };
    let layer_bytes = container.size_rw.and_then(|size| u64::try_from(size).ok());
    Ok(layer_bytes.map(|bytes| bytes.saturating_add(volumes_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str) -> Error {
        Error::DockerResponseServerError { status_code: 500, message: message.to_owned() }
    }

    #[test]
    fn a_driver_without_size_limits_is_recognised_by_its_error() {
        assert!(is_about_sizes(&refused("--storage-opt is not supported")));
        let words =
            "--storage-opt is supported only for overlay over xfs with 'pquota' mount option";
        assert!(is_about_sizes(&refused(words)));
        assert!(!is_about_sizes(&refused("no space left on device")));
    }

    #[test]
    fn the_size_is_part_of_the_request() {
        let body = sized(ContainerCreateBody::default(), 5_000_000);
        let options = body.host_config.unwrap().storage_opt.unwrap();
        assert_eq!(options["size"], "5000000");
    }
}
