//! What nodes give to tasks that leave it to them.

use alloc::collections::BTreeMap;

use api_types::NodeId;
use api_types::quantity::Resources;

/// How many nodes have each default.
#[derive(Default)]
pub(super) struct Defaults {
    of_node: BTreeMap<NodeId, (u64, u64)>,
    cpu_millis: BTreeMap<u64, usize>,
    memory_bytes: BTreeMap<u64, usize>,
}

// === impl Defaults ===

impl Defaults {
    pub(super) fn set(&mut self, node: NodeId, defaults: Option<(u64, u64)>) {
        let before = match defaults {
            Some(defaults) => self.of_node.insert(node, defaults),
            None => self.of_node.remove(&node),
        };
        if before == defaults {
            return;
        }
        for ((cpu, memory), is_new) in
            before.map(|it| (it, false)).into_iter().chain(defaults.map(|it| (it, true)))
        {
            for (counts, amount) in [(&mut self.cpu_millis, cpu), (&mut self.memory_bytes, memory)]
            {
                let nodes = counts.entry(amount).or_default();
                *nodes = if is_new { *nodes + 1 } else { nodes.saturating_sub(1) };
                if *nodes == 0 {
                    counts.remove(&amount);
                }
            }
        }
    }

    /// The largest of each.
    pub(super) fn largest(&self) -> Resources {
        let largest = |counts: &BTreeMap<u64, usize>| {
            counts.last_key_value().map_or(0, |(amount, _)| *amount)
        };
        let (cpu_millis, memory_bytes) = (largest(&self.cpu_millis), largest(&self.memory_bytes));
        Resources { cpu_millis, memory_bytes, ..Resources::ZERO }
    }
}
