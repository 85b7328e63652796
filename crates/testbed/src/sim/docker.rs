//! A docker engine that survives its agent, and fails now and then.

use std::collections::BTreeMap;

use api_types::{ExecutionId, Timestamp};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Container {
    Created,
    Running { ends: Timestamp, code: i32 },
    Exited { code: i32 },
}

#[derive(Debug, Default)]
pub(super) struct Docker {
    pub(super) containers: BTreeMap<ExecutionId, Container>,
    /// How often a process was started, for ever.
    pub(super) starts: BTreeMap<ExecutionId, u32>,
}

// === impl Docker ===

impl Docker {
    pub(super) fn create(&mut self, id: ExecutionId) {
        self.containers.entry(id).or_insert(Container::Created);
    }

    /// Starts it unless it was started before, like the Engine API's 304.
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

    /// Makes the process end at `by`, if it runs.
    pub(super) fn stop(&mut self, id: ExecutionId, by: Timestamp) {
        if let Some(Container::Running { ends, code }) = self.containers.get_mut(&id)
            && *ends > by
        {
            *ends = by;
            *code = 143;
        }
    }

    /// Lets processes end whose time has come; says which.
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
