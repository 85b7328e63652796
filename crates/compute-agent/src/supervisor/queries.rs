//! What others ask the supervisor.

use std::collections::BTreeMap;

use api_types::ExecutionId;
use api_types::id::IdPrefix;
use api_types::protocol::LocalExecution;
use api_types::quantity::Resources;

use super::{Found, Slot, Supervisor, Usage};
use crate::execution::{Execution, Phase};

impl Supervisor {
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for Slot { execution, .. } in self.table.values() {
            let counter = match execution.phase {
                Phase::Done { .. } => continue,
                Phase::Accepted | Phase::Preparing | Phase::Withdrawing { .. } => {
                    &mut usage.enqueued_executions
                }
                Phase::Starting
                | Phase::Overtaken { .. }
                | Phase::Running { .. }
                | Phase::Stopping { .. }
                | Phase::Collecting { .. } => &mut usage.running_executions,
            };
            *counter += 1;
            usage.used = usage.used.plus(&Resources::from(execution.work.resources));
        }
        usage
    }

    pub(super) fn list(&self) -> Vec<LocalExecution> {
        let all: BTreeMap<_, _> =
            self.table.iter().map(|(id, slot)| (*id, self.local(&slot.execution))).collect();
        all.into_values().collect()
    }

    pub(super) fn find(&self, prefix: &IdPrefix) -> Found {
        let found: Vec<_> = self
            .table
            .values()
            .map(|slot| &slot.execution)
            .filter(|execution| prefix.contains(execution.id.uuid()))
            .collect();
        match found.as_slice() {
            [] => Found::None,
            [one] => Found::One {
                local: Box::new(self.local(one)),
                engine: one.work.task.engine.engine_type,
            },
            many => Found::Many(many.iter().map(|execution| execution.id).collect()),
        }
    }

    fn local(&self, execution: &Execution) -> LocalExecution {
        execution.local(self.ledger.node_id())
    }

    /// Those that nothing needs any more.
    pub(super) fn leftovers(&self, mut found: Vec<ExecutionId>) -> Vec<ExecutionId> {
        found.retain(|id| self.table.get(id).is_none_or(|slot| slot.execution.phase.is_done()));
        found
    }
}
