//! The volumes that images declare, and what tasks write there.
//!
//! Only the Engine may look into them, and it measures all volumes at a time.

use std::collections::BTreeSet;

use bollard::models::ContainerInspectResponse;

use super::engine::Engine;
use super::error;
use crate::runtime::ExecutorError;

/// The volumes of a container; the agent itself mounts none.
pub(super) fn mounted_in(container: &ContainerInspectResponse) -> BTreeSet<String> {
    let mounts = container.mounts.iter().flatten();
    mounts
        .filter(|mount| mount.typ.as_deref() == Some("volume"))
        .filter_map(|mount| mount.name.clone())
        .collect()
}

/// Where they are mounted.
pub(super) fn targets(container: &ContainerInspectResponse) -> BTreeSet<String> {
    let mounts = container.mounts.iter().flatten();
    mounts
        .filter(|mount| mount.typ.as_deref() == Some("volume"))
        .filter_map(|mount| mount.destination.clone())
        .collect()
}

/// The bytes in these volumes.
pub(super) async fn written_bytes(
    client: &Engine,
    wanted: &BTreeSet<String>,
) -> Result<u64, ExecutorError> {
    let volumes = client.measured_volumes().await.map_err(|error| {
        // The Engine serves one such request at a time; the caller retries.
        error::unreachable(format!("cannot measure volumes: {}", error::chain(&error)))
    })?;
    let sizes = volumes.into_iter().filter(|volume| wanted.contains(&volume.name));
    let sizes = sizes.filter_map(|volume| u64::try_from(volume.usage_data?.size).ok());
    Ok(sizes.fold(0, u64::saturating_add))
}
