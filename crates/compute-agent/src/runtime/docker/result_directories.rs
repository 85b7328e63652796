//! Creates result directories that an image does not have.

use std::collections::BTreeSet;

use agent_core::execution::Failure;
use bollard::query_parameters::{ContainerArchiveInfoOptions, UploadToContainerOptions};

use super::container;
use super::error::{is_not_found, of_engine};
use crate::runtime::ExecutorError;

/// Creates the directories that the task's result paths need and its image lacks, so that a task
/// can write to them at once.
pub(super) async fn make(
    client: &bollard::Docker,
    name: &str,
    directories: BTreeSet<String>,
) -> Result<(), ExecutorError> {
    let mut missing = Vec::new();
    for directory in directories {
        let options = ContainerArchiveInfoOptions { path: directory.clone() };
        match client.get_container_archive_info(name, Some(options)).await {
            Ok(_) => {}
            Err(error) if is_not_found(&error) => missing.push(directory),
            Err(error) => return Err(of_engine(error)),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let tar = container::tar_of_directories(&missing).map_err(|error| {
        ExecutorError::Failed(Failure::task(format!("cannot create a result path: {error}")))
    })?;
    let options = UploadToContainerOptions { path: "/".to_owned(), ..Default::default() };
    let body = bollard::body_full(tar);
    client.upload_to_container(name, Some(options), body).await.map_err(of_engine)
}
