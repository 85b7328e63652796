//! Twins of tasks, which tell the failures of a node from those of its tasks.
//!
//! An engine's error says what went wrong, not who caused it: the same status code stands for a
//! path that no container can have and for a disk that no longer works. So the agent runs its own
//! program in the same way. It has everything that the node provides for the task, and nothing that
//! a job named.

use std::path::PathBuf;
use std::time::Duration;

use api_types::engine::NetworkType;
use api_types::protocol::Work;
use api_types::quantity::Resources;

use super::capabilities;

/// Limit on the time in which a twin starts, and before that its network, if it has one. Either
/// usually takes less than half a second.
pub(crate) const TWIN_TIMEOUT: Duration = Duration::from_secs(20);

/// The limits of a twin. A job could name limits with which nothing starts.
const LIMITS: Resources =
    Resources { cpu_millis: 1000, memory_bytes: 64 << 20, disk_bytes: 64 << 20, gpus: 0 };

/// Something of the agent's own that runs like a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Twin {
    pub(crate) likeness: Likeness,
    /// Directories of the agent's own to mount, from where a task's inputs and secrets come.
    pub(crate) mounts: Vec<PathBuf>,
}

/// What tasks have in common with their twin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Likeness {
    pub(crate) network: NetworkType,
    /// 0 for no limit.
    pub(crate) resources: Resources,
    /// By the names of the container runtime.
    pub(crate) gpus: Vec<String>,
    /// Whether files of secrets are mounted.
    pub(crate) secrets: bool,
    /// Whether root has the capabilities that the node gives to tasks.
    pub(crate) capabilities: bool,
}

// === impl Likeness ===

impl Likeness {
    /// A task with every limit, and with this network.
    pub(crate) fn with_network(network: NetworkType) -> Self {
        let (gpus, secrets) = (Vec::new(), false);
        Self { network, resources: LIMITS, gpus, secrets, capabilities: true }
    }

    pub(crate) fn of_task(work: &Work, gpus: Vec<String>) -> Self {
        let wanted = Resources::from(work.resources);
        let limit = |wanted: u64, own: u64| if wanted > 0 { own } else { 0 };
        Self {
            network: work.task.network.network_type,
            resources: Resources {
                cpu_millis: limit(wanted.cpu_millis, LIMITS.cpu_millis),
                memory_bytes: limit(wanted.memory_bytes, LIMITS.memory_bytes),
                disk_bytes: limit(wanted.disk_bytes, LIMITS.disk_bytes),
                gpus: 0,
            },
            gpus,
            secrets: work.task.secrets.iter().any(|secret| !secret.path.is_empty()),
            capabilities: capabilities::has_some(work),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plain_work;
    use api_types::quantity::Capacity;

    #[test]
    fn a_job_that_names_limits_with_which_nothing_starts_gets_a_twin_that_starts() {
        let mut work = plain_work();
        let like = |work: &Work| Likeness::of_task(work, Vec::new());
        work.resources = Capacity { cpu: 0.001, memory: 1, disk: 0, gpu: 0 };
        let least = like(&work);
        work.resources = Capacity { cpu: 64.0, memory: 1 << 40, disk: 0, gpu: 0 };
        assert_eq!(like(&work), least);
        assert_eq!(least.resources, Resources { disk_bytes: 0, ..LIMITS });
        work.resources = Capacity { cpu: 0.0, memory: 0, disk: 1, gpu: 0 };
        let unlimited = Resources { disk_bytes: LIMITS.disk_bytes, ..Resources::default() };
        assert_eq!(like(&work).resources, unlimited);
    }
}
