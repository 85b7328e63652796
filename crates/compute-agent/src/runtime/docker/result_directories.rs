//! Result directories to which any user of an image can write.

use std::collections::BTreeSet;

use agent_core::execution::Failure;
use api_types::protocol::FailureCause;
use bollard::errors::Error;
use bollard::query_parameters::{
    ContainerArchiveInfoOptions, DownloadFromContainerOptions, InspectContainerOptions,
    UploadToContainerOptions,
};
use futures_util::TryStreamExt;

use super::container::{self, Owner};
use super::engine::Engine;
use super::error::{is_not_found, of_task};
use super::volumes;
use crate::runtime::ExecutorError;

/// What is read of an archive for its first entry, which is the directory itself: a header, after one
/// with extensions where a name is long.
const HEAD_BYTES: usize = 16 << 10;

/// Creates the directories that the task's result paths need and its image lacks, so that a task
/// can write to them immediately. A volume is created by the Engine, for root alone: it gets the same
/// mode.
pub(super) async fn make(
    client: &Engine,
    name: &str,
    directories: BTreeSet<String>,
) -> Result<(), ExecutorError> {
    let (mut wanted, mut found) = (Vec::new(), Vec::new());
    for directory in directories {
        let options = ContainerArchiveInfoOptions { path: directory.clone() };
        match client.get_container_archive_info(name, Some(options)).await {
            Ok(_) => found.push(directory),
            Err(error) if is_not_found(&error) => wanted.push((directory, Owner::default())),
            // The Engine sends no words with it.
            Err(Error::DockerResponseServerError { status_code, .. }) => {
                return Err(ExecutorError::Refused {
                    reason: format!(
                        "docker answers {status_code}: '{directory}' cannot be a directory of this \
                         container"
                    ),
                    formerly: FailureCause::Node,
                });
            }
            Err(error) => return Err(of_task(error)),
        }
    }
    for directory in volumes_among(client, name, found).await? {
        let owner = owner_of(client, name, &directory).await?;
        wanted.push((directory, owner));
    }
    if wanted.is_empty() {
        return Ok(());
    }
    let tar = container::tar_of_directories(&wanted).map_err(|error| {
        ExecutorError::Failed(Failure::task(format!("cannot create a result path: {error}")))
    })?;
    let options = UploadToContainerOptions { path: "/".to_owned(), ..Default::default() };
    client.upload_to_container(name, Some(options), tar).await.map_err(of_task)
}

/// Those of the directories that are volumes of the container.
async fn volumes_among(
    client: &Engine,
    name: &str,
    mut directories: Vec<String>,
) -> Result<Vec<String>, ExecutorError> {
    if directories.is_empty() {
        return Ok(directories);
    }
    let container = client.inspect_container(name, None::<InspectContainerOptions>).await;
    let targets = volumes::targets(&container.map_err(of_task)?);
    directories.retain(|directory| targets.contains(directory));
    Ok(directories)
}

/// The image decides to whom a volume belongs.
async fn owner_of(client: &Engine, name: &str, directory: &str) -> Result<Owner, ExecutorError> {
    let options = DownloadFromContainerOptions { path: directory.to_owned() };
    let mut pieces = client.download_from_container(name, Some(options));
    let mut head = Vec::new();
    while head.len() < HEAD_BYTES
        && let Some(piece) = pieces.try_next().await.map_err(of_task)?
    {
        head.extend_from_slice(&piece);
    }
    Ok(first_owner(&head).unwrap_or_default())
}

fn first_owner(head: &[u8]) -> Option<Owner> {
    let mut tar = tar::Archive::new(head);
    let entry = tar.entries().ok()?.next()?.ok()?;
    let header = entry.header();
    Some(Owner { user: header.uid().ok()?, group: header.gid().ok()? })
}
