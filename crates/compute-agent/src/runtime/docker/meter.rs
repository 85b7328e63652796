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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_types::ExecutionId;
use tracing::debug;

use crate::host::cgroup::{ControlGroup, Reading};

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
pub(super) struct Metered {
    /// None where this machine does not show it.
    pub(super) group: Option<ControlGroup>,
    pub(super) last: Option<Reading>,
    out_of_memory: bool,
    /// Whether this process waits for its end.
    is_followed: bool,
}

// === impl Meter ===

impl Meter {
    /// Takes a reading of a container that is starting or has started. Returns its control group
    /// the first time that there is one, to be followed.
    pub(super) fn started(&self, id: ExecutionId, container_id: &str) -> Option<ControlGroup> {
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

    /// Takes readings at intervals, and whenever a process of the container ends; returns when its
    /// group is gone.
    ///
    /// The group is empty for moments while the Engine starts the container, and after its end.
    pub(super) async fn follow(&self, id: ExecutionId, group: ControlGroup) {
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

    pub(super) fn get(&self, id: ExecutionId) -> Option<Metered> {
        self.containers().get(&id).cloned()
    }

    pub(super) fn keep(&self, id: ExecutionId, reading: Reading) -> Option<Reading> {
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
}
