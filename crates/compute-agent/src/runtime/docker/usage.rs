//! What containers use, asked of the kernel where it shows them, and of the Engine otherwise.

use std::sync::Arc;
use std::time::Duration;

use api_types::ExecutionId;
use bollard::models::ContainerStatsResponse;
use bollard::query_parameters::{InspectContainerOptions, StatsOptions};

use super::engine::Engine;
use super::meter::Metered;
use super::{Docker, error, name};
use crate::host::cgroup::{ControlGroup, Reading};
use crate::runtime::ExecutorError;

/// Interval between readings while a container starts, which takes some tenths of a second.
const READ_WHILE_STARTING: Duration = Duration::from_millis(2);

// === impl Docker ===

impl Docker {
    /// Starts a container, and reads what it uses while it runs: a short task has ended, and its
    /// counters are gone, before the Engine answers.
    pub(super) async fn start_metered(
        &self,
        client: &Engine,
        id: ExecutionId,
        container_id: &str,
    ) -> Result<(), bollard::errors::Error> {
        let name = name(id);
        let mut starting = std::pin::pin!(client.start_container(&name));
        loop {
            match tokio::time::timeout(READ_WHILE_STARTING, &mut starting).await {
                Ok(started) => {
                    self.meter_started(id, container_id);
                    return started;
                }
                Err(_) => self.meter_started(id, container_id),
            }
        }
    }

    /// What the container uses now, or used when it was last seen.
    pub(super) async fn usage_now(
        &self,
        id: ExecutionId,
    ) -> Result<Option<Reading>, ExecutorError> {
        let Some(Metered { group, last, .. }) = self.meter.get(id) else { return Ok(None) };
        match group {
            Some(group) => match group.read() {
                Ok(reading) => Ok(self.meter.keep(id, reading)),
                // It has ended.
                Err(_) => Ok(last),
            },
            None => {
                let reading = self.statistics(id).await?;
                Ok(reading.and_then(|reading| self.meter.keep(id, reading)).or(last))
            }
        }
    }

    /// Follows a container that an earlier agent started.
    pub(super) async fn meter_adopted(&self, id: ExecutionId) {
        if self.meter.get(id).is_some() {
            return;
        }
        let Ok(client) = self.client() else { return };
        let found = client.inspect_container(&name(id), None::<InspectContainerOptions>).await;
        if let Some(container_id) = found.ok().and_then(|container| container.id) {
            self.meter_started(id, &container_id);
        }
    }

    /// Follows the container from now on, until its end.
    fn meter_started(&self, id: ExecutionId, container_id: &str) {
        if let Some(group) = self.meter.started(id, container_id) {
            let meter = Arc::clone(&self.meter);
            self.tasks.spawn(async move { meter.follow(id, group).await });
        }
    }

    async fn statistics(&self, id: ExecutionId) -> Result<Option<Reading>, ExecutorError> {
        Ok(self.engine_statistics(id).await?.as_ref().and_then(reading))
    }

    /// The control group of a container, where this machine shows it.
    pub(super) fn group_of(&self, id: ExecutionId) -> Option<ControlGroup> {
        self.meter.get(id)?.group
    }

    /// The Engine's own statistics.
    pub(super) async fn engine_statistics(
        &self,
        id: ExecutionId,
    ) -> Result<Option<ContainerStatsResponse>, ExecutorError> {
        let client = self.client()?;
        let options = StatsOptions { stream: false, one_shot: true };
        let answer = client.stats(&name(id), Some(options)).await;
        answer.map(Some).map_err(error::of_container)
    }
}

fn reading(answer: &ContainerStatsResponse) -> Option<Reading> {
    let cpu = answer.cpu_stats.as_ref()?.cpu_usage.as_ref()?.total_usage?;
    let memory = answer.memory_stats.as_ref()?;
    let cache = |key: &str| memory.stats.as_ref().and_then(|stats| stats.get(key).copied());
    let cache = cache("total_inactive_file").or_else(|| cache("inactive_file")).unwrap_or(0);
    Some(Reading {
        cpu: Duration::from_nanos(cpu),
        // Absent once the container has ended.
        memory_bytes: memory.usage?.saturating_sub(cache),
        memory_peak_bytes: memory.max_usage.filter(|peak| *peak > 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_statistics_are_read_without_the_page_cache() {
        let answer = serde_json::json!({
            "cpu_stats": {"cpu_usage": {"total_usage": 1_500_000_000_u64}},
            "memory_stats": {"usage": 5000, "stats": {"inactive_file": 1000}},
        });
        let answer: ContainerStatsResponse = serde_json::from_value(answer).unwrap();
        let expected = Reading {
            cpu: Duration::from_millis(1500),
            memory_bytes: 4000,
            memory_peak_bytes: None,
        };
        assert_eq!(reading(&answer), Some(expected));
        assert_eq!(reading(&ContainerStatsResponse::default()), None);
    }
}
