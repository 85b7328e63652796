//! Measures what containers use: CPU time and memory.
//!
//! The kernel's counters of a container are gone soon after its last process. So from the moment
//! at which its control group appears, while the Engine still starts it, the agent waits for the end
//! of its first process and reads the counters once more then, tens of milliseconds before the
//! Engine removes them.
//!
//! Where this machine does not show the container's control group, the agent asks the Engine for
//! its statistics. The Engine has none for a container that has ended, and no peak under cgroup v2:
//! the last sample is used then.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::ExecutionId;
use bollard::models::ContainerStatsResponse;
use bollard::query_parameters::{InspectContainerOptions, StatsOptions};
use futures_util::StreamExt;
use tracing::debug;

use super::{Docker, error, name};
use crate::host::cgroup::{ControlGroup, Reading};
use crate::runtime::ExecutorError;

/// Interval between readings while a container starts, which takes some tenths of a second.
const READ_WHILE_STARTING: Duration = Duration::from_millis(2);

/// Delay before the next process of a container is waited for: the last one takes a moment to be
/// gone.
const READ_AGAIN: Duration = Duration::from_millis(1);

/// The longest such delay, for a group that stays although it is empty; and the interval between
/// readings of a process that goes on. The Engine may remove the group before its last reading, on a
/// busy machine, so this is the most that can be lost.
const READ_RARELY: Duration = Duration::from_secs(1);

/// The containers of this node that have started and are not removed yet.
#[derive(Debug, Default)]
pub(super) struct Meter {
    containers: Mutex<HashMap<ExecutionId, Metered>>,
}

#[derive(Debug, Clone, Default)]
struct Metered {
    /// None where this machine does not show it.
    group: Option<ControlGroup>,
    last: Option<Reading>,
    out_of_memory: bool,
    /// Whether this process waits for its end.
    is_followed: bool,
}

// === impl Meter ===

impl Meter {
    /// Takes a reading of a container that is starting or has started. Returns its control group
    /// the first time that there is one, to be followed.
    fn started(&self, id: ExecutionId, container_id: &str) -> Option<ControlGroup> {
        let mut containers = self.containers();
        let metered = containers.entry(id).or_default();
        if metered.group.is_none() {
            metered.group = ControlGroup::of_container(container_id);
        }
        let group = metered.group.clone()?;
        if let Ok(reading) = group.read() {
            metered.keep(reading);
        }
        (!std::mem::replace(&mut metered.is_followed, true)).then_some(group)
    }

    /// Takes a reading whenever a process of the container ends, and meanwhile; returns when its
    /// group is gone.
    ///
    /// The group is empty for moments while the Engine starts the container, and after its end.
    async fn follow(&self, id: ExecutionId, group: ControlGroup) {
        let mut pause = READ_AGAIN;
        let alarm = group.memory_alarm();
        loop {
            match group.process() {
                Ok(Some(process)) => {
                    let ended = tokio::time::timeout(READ_RARELY, process.end()).await;
                    if let Ok(Err(error)) = ended {
                        return debug!(execution = %id, %error, "cannot wait for a process");
                    }
                    pause = READ_AGAIN;
                }
                Ok(None) => pause = (2 * pause).min(READ_RARELY),
                Err(error) => {
                    debug!(execution = %id, %error, "a container is gone");
                    if let Some(alarm) = alarm
                        && alarm.has_rung().await
                    {
                        self.note_out_of_memory(id);
                    }
                    return;
                }
            }
            if group.was_out_of_memory() {
                self.note_out_of_memory(id);
            }
            if let Ok(reading) = group.read() {
                self.keep(id, reading);
            }
            tokio::time::sleep(pause).await;
        }
    }

    pub(super) fn forget(&self, id: ExecutionId) {
        self.containers().remove(&id);
    }

    /// Whether the kernel killed a process of the container for its memory. The Engine learns that
    /// on its own way, which may take longer than the end; on a busy machine one of a hundred times it
    /// does not learn it at all.
    pub(super) fn was_out_of_memory(&self, id: ExecutionId) -> bool {
        self.containers().get(&id).is_some_and(|metered| metered.out_of_memory)
    }

    fn note_out_of_memory(&self, id: ExecutionId) {
        if let Some(metered) = self.containers().get_mut(&id) {
            metered.out_of_memory = true;
        }
    }

    fn get(&self, id: ExecutionId) -> Option<Metered> {
        self.containers().get(&id).cloned()
    }

    fn keep(&self, id: ExecutionId, reading: Reading) -> Option<Reading> {
        let mut containers = self.containers();
        let metered = containers.get_mut(&id)?;
        metered.keep(reading);
        metered.last
    }

    fn containers(&self) -> MutexGuard<'_, HashMap<ExecutionId, Metered>> {
        self.containers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Metered ===

impl Metered {
    /// Keeps a reading, unless it says less than the one before: the Engine returns zeros once the
    /// container has ended.
    fn keep(&mut self, reading: Reading) {
        if self.last.is_none_or(|last| reading.cpu >= last.cpu) {
            self.last = Some(reading);
        }
    }
}

// === impl Docker: usage ===

impl Docker {
    /// Starts a container, and reads what it uses meanwhile: a short task has ended, and its counters
    /// are gone, before the Engine answers.
    pub(super) async fn start_metered(
        &self,
        client: &bollard::Docker,
        id: ExecutionId,
        container_id: &str,
    ) -> Result<(), bollard::errors::Error> {
        let name = name(id);
        let mut starting = std::pin::pin!(client.start_container(&name, None));
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

    /// The Engine's own statistics.
    async fn statistics(&self, id: ExecutionId) -> Result<Option<Reading>, ExecutorError> {
        let client = self.client()?;
        let options = StatsOptions { stream: false, one_shot: true };
        let mut answers = std::pin::pin!(client.stats(&name(id), Some(options)));
        match answers.next().await {
            Some(Ok(answer)) => Ok(reading(&answer)),
            Some(Err(error)) => Err(error::of_container(error)),
            None => Ok(None),
        }
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
    use crate::testing::execution_id;

    #[test]
    fn the_zeros_of_an_ended_container_are_not_taken_for_its_use() {
        let meter = Meter::default();
        let id = execution_id(1);
        assert_eq!(meter.started(id, "0000"), None, "this machine has no such container");
        let reading = |seconds, memory_bytes| Reading {
            cpu: Duration::from_secs(seconds),
            memory_bytes,
            memory_peak_bytes: None,
        };
        assert_eq!(meter.keep(id, reading(2, 7)), Some(reading(2, 7)));
        assert_eq!(meter.keep(id, reading(0, 0)), Some(reading(2, 7)));
        assert_eq!(meter.keep(id, reading(3, 1)), Some(reading(3, 1)));
        meter.forget(id);
        assert_eq!(meter.keep(id, reading(4, 1)), None);
    }

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
