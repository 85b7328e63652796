//! How containers use up a disk in ways that their files do not show; asked for only when it runs
//! low.

use std::path::PathBuf;

use api_types::ExecutionId;
use bollard::errors::Error;
use bollard::models::ContainerStatsResponse;
use tracing::debug;

use super::{Docker, error, name};
use crate::host::device::Device;
use crate::runtime::{ExecutorError, Hidden};

/// Entries of a container whose list is longer than the agent takes from the Engine.
const COUNTLESS: u64 = 1_000_000;

// === impl Docker: what containers hide ===

impl Docker {
    /// The Engine's own directory, where it is on this machine and the agent can see its disk.
    pub(super) async fn engine_directory(&self) -> Option<PathBuf> {
        if !self.host.starts_with("unix://") {
            return None;
        }
        let client = self.client().ok()?;
        let root = PathBuf::from(client.info().await.ok()?.docker_root_dir?);
        rustix::fs::statvfs(&root).is_ok().then_some(root)
    }

    pub(super) async fn hidden_of(&self, id: ExecutionId, device: &Device) -> Hidden {
        let known = |measured: Result<Option<u64>, ExecutorError>| {
            measured.unwrap_or_else(|error| {
                debug!(execution = %id, %error, "cannot measure a task");
                None
            })
        };
        let written_bytes = known(self.written_to(id, device).await).unwrap_or_default();
        Hidden { written_bytes, entries: known(self.changed(id).await).unwrap_or_default() }
    }

    /// From the control group, or where this machine does not show it, from the Engine.
    async fn written_to(
        &self,
        id: ExecutionId,
        device: &Device,
    ) -> Result<Option<u64>, ExecutorError> {
        match self.group_of(id) {
            Some(group) => Ok(group.written_bytes(device).ok()),
            None => Ok(self.engine_statistics(id).await?.map(|answer| written(&answer, device))),
        }
    }

    /// The entries that a container has made, changed or removed in its own layer.
    async fn changed(&self, id: ExecutionId) -> Result<Option<u64>, ExecutorError> {
        match self.client()?.container_changes(&name(id)).await {
            Ok(changes) => Ok(changes.map(|changes| changes.len() as u64)),
            Err(error) if is_too_long(&error) => Ok(Some(COUNTLESS)),
            Err(error) => Err(error::of_container(error)),
        }
    }
}

/// The transport refuses an answer beyond its bound.
fn is_too_long(error: &Error) -> bool {
    error.to_string().contains(" is longer than ")
}

/// Bytes that the Engine counts as written to the device.
fn written(answer: &ContainerStatsResponse, device: &Device) -> u64 {
    let all =
        answer.blkio_stats.as_ref().and_then(|stats| stats.io_service_bytes_recursive.as_ref());
    let writes = all.into_iter().flatten().filter(|entry| {
        let is_write = entry.op.as_ref().is_some_and(|op| op.eq_ignore_ascii_case("write"));
        let name = entry.major.zip(entry.minor).map(|(major, minor)| format!("{major}:{minor}"));
        is_write && name.is_some_and(|name| device.may_be(&name))
    });
    writes.filter_map(|entry| entry.value).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_statistics_tell_what_was_written_to_a_device() {
        let answer = serde_json::json!({"blkio_stats": {"io_service_bytes_recursive": [
            {"major": 8, "minor": 0, "op": "Read", "value": 1000},
            {"major": 8, "minor": 0, "op": "Write", "value": 200},
            {"major": 8, "minor": 0, "op": "write", "value": 30},
            {"major": 7, "minor": 1, "op": "write", "value": 4},
        ]}});
        let answer: ContainerStatsResponse = serde_json::from_value(answer).unwrap();
        assert_eq!(written(&answer, &Device::named(&["8:1", "8:0"])), 230);
        assert_eq!(written(&answer, &Device::named(&["7:1"])), 4);
        assert_eq!(written(&answer, &Device::named(&[])), 234, "of no known device");
        assert_eq!(written(&ContainerStatsResponse::default(), &Device::named(&[])), 0);
    }
}
