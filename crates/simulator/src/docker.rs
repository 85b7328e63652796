//! A simulated Docker Engine that survives its agent and sometimes fails.

use std::collections::BTreeMap;

use agent_core::execution::Failure;
use api_types::{ExecutionId, Timestamp};

use crate::workload::Kind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Created,
    Running { ends: Timestamp, code: i32 },
    Exited { code: i32 },
}

/// Why nothing can be started.
pub(super) const NO_IMAGE: &str = "no image by that name";
pub(super) const NO_REGISTRY: &str = "the registry does not answer";

/// Why the results of a run cannot be published.
pub(super) const REFUSED: &str = "there is no such bucket";

/// Why some containers cannot be created.
pub(super) const NO_NETWORK: &str = "containers get no network";
pub(super) const DAMAGED: &str = "a layer of the image is damaged";
pub(super) const IMPOSSIBLE: &str = "mkdir /etc/passwd: not a directory";
const NO_TRACE: &str = "no trace of the run is left";

/// What is wrong with a node that runs other work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// The probes of its agent find it.
    Network,
    /// Of one image or one directory, which those probes do not use.
    Damage,
}

/// How an agent answers when it is asked for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Answers {
    #[default]
    Truly,
    /// That all is well.
    Falsely,
    Never,
}

/// The exit code of a process that ended with its machine. No task ends with it by itself.
pub(super) const KILLED: i32 = 137;

#[derive(Debug, Default)]
pub(super) struct Docker {
    pub(super) containers: BTreeMap<ExecutionId, Container>,
    /// Number of process starts of each execution in the whole run.
    pub(super) starts: BTreeMap<ExecutionId, u32>,
    /// It fails every start immediately.
    pub(super) is_broken: bool,
    /// It cannot pull, unlike the Engines of the other nodes.
    pub(super) has_no_registry: bool,
    pub(super) defect: Option<Defect>,
}

// === impl Docker ===

impl Docker {
    pub(super) fn create(&mut self, id: ExecutionId) {
        self.containers.entry(id).or_insert(Container::Created);
    }

    /// What a probe of its agent finds.
    pub(super) fn probe(&self) -> Option<&'static str> {
        match self.defect {
            _ if self.is_broken => Some(NO_IMAGE),
            Some(Defect::Network) => Some(NO_NETWORK),
            Some(Defect::Damage) | None => None,
        }
    }

    /// Why it cannot run a task of this kind, if it cannot.
    pub(super) fn obstacle(&self, kind: Kind) -> Option<Failure> {
        match (kind, self.defect) {
            (Kind::Networked, Some(Defect::Network)) => Some(Failure::confirmed(NO_NETWORK)),
            (Kind::Layered, Some(Defect::Damage)) => Some(Failure::refused(DAMAGED)),
            (Kind::Impossible, _) => Some(Failure::refused(IMPOSSIBLE)),
            (Kind::Hostile, _) => Some(Failure::node(NO_TRACE)),
            (Kind::Plain | Kind::Networked | Kind::Layered, _) => None,
        }
    }

    /// Starts the container unless it was started before, like status 304 of the Engine API.
    pub(super) fn start(&mut self, id: ExecutionId, ends: Timestamp, code: i32) -> bool {
        match self.containers.get_mut(&id) {
            Some(container @ Container::Created) => {
                *container = Container::Running { ends, code };
                *self.starts.entry(id).or_default() += 1;
                true
            }
            Some(Container::Running { .. } | Container::Exited { .. }) => true,
            None => false,
        }
    }

    /// Ends a running process at the latest at `by`.
    pub(super) fn stop(&mut self, id: ExecutionId, by: Timestamp) {
        if let Some(Container::Running { ends, code }) = self.containers.get_mut(&id)
            && *ends > by
        {
            *ends = by;
            *code = 143;
        }
    }

    /// Ends every process with the machine.
    pub(super) fn reboot(&mut self) {
        for container in self.containers.values_mut() {
            if matches!(container, Container::Running { .. }) {
                *container = Container::Exited { code: KILLED };
            }
        }
    }

    /// Ends the processes that are due by `now`, and returns them.
    pub(super) fn pass(&mut self, now: Timestamp) -> Vec<(ExecutionId, i32)> {
        let mut ended = Vec::new();
        for (id, container) in &mut self.containers {
            if let Container::Running { ends, code } = *container
                && ends <= now
            {
                *container = Container::Exited { code };
                ended.push((*id, code));
            }
        }
        ended
    }
}
