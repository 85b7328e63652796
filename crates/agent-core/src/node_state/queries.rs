//! Read-only queries on the core.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use api_types::engine::EngineType;
use api_types::id::IdPrefix;
use api_types::protocol::LocalExecution;
use api_types::quantity::Resources;
use api_types::{ExecutionId, NodeId};

use super::{NodeState, Slot};
use crate::execution::{Decline, Phase};

/// Resources that the executions of this node hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    pub used: Resources,
    pub running_executions: u64,
    pub enqueued_executions: u64,
}

/// The executions that an id or prefix matches.
#[derive(Debug)]
pub enum Matches {
    None,
    One { local: Box<LocalExecution>, engine: EngineType },
    Many(Vec<ExecutionId>),
}

// === impl NodeState: queries ===

impl NodeState {
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        for Slot { execution, .. } in self.table.values() {
            let counter = match execution.phase {
                Phase::Done { .. } => continue,
                Phase::Accepted | Phase::Preparing | Phase::Withdrawing { .. } => {
                    &mut usage.enqueued_executions
                }
                Phase::Starting { .. }
                | Phase::Overtaken { .. }
                | Phase::Running { .. }
                | Phase::Stopping { .. }
                | Phase::Collecting { .. } => &mut usage.running_executions,
            };
            *counter += 1;
            let given = Resources::from(execution.work.resources);
            let held = if execution.phase.may_run() { given } else { given.without_process() };
            usage.used = usage.used.plus(&held);
        }
        usage
    }

    pub fn list(&self, node: NodeId) -> Vec<LocalExecution> {
        let all: BTreeMap<_, _> =
            self.table.iter().map(|(id, slot)| (*id, slot.execution.local(node))).collect();
        all.into_values().collect()
    }

    pub fn find(&self, prefix: &IdPrefix, node: NodeId) -> Matches {
        let found: Vec<_> = self
            .table
            .values()
            .map(|slot| &slot.execution)
            .filter(|execution| prefix.contains(execution.id.uuid()))
            .collect();
        match found.as_slice() {
            [] => Matches::None,
            [one] => Matches::One {
                local: Box::new(one.local(node)),
                engine: one.work.task.engine.engine_type,
            },
            many => Matches::Many(many.iter().map(|execution| execution.id).collect()),
        }
    }

    /// The first GPUs that no execution holds, as many as `wanted`; or why there are too few.
    pub(super) fn free_gpus(&self, wanted: u64) -> Result<Vec<u32>, Decline> {
        let executions = self.table.values().map(|slot| &slot.execution);
        let held: BTreeSet<u32> = executions
            .filter(|execution| execution.phase.may_run())
            .flat_map(|execution| execution.gpus.iter().copied())
            .collect();
        let all = u32::try_from(self.limits.capacity.gpus).unwrap_or(u32::MAX);
        let wanted_count = usize::try_from(wanted).unwrap_or(usize::MAX);
        let free: Vec<u32> =
            (0..all).filter(|index| !held.contains(index)).take(wanted_count).collect();
        if free.len() == wanted_count {
            return Ok(free);
        }
        let free = free.len();
        let reason = format!("the task needs {wanted} GPUs; {free} of this node's {all} are free");
        Err(if wanted > u64::from(all) { Decline::unfit(reason) } else { Decline::no_room(reason) })
    }

    /// Which of these containers no execution needs any more.
    pub fn leftovers(&self, mut found: Vec<ExecutionId>) -> Vec<ExecutionId> {
        found.retain(|id| self.table.get(id).is_none_or(|slot| slot.execution.phase.is_done()));
        found
    }
}
