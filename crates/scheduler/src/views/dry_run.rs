//! Where a job would run, without submitting it.
//!
//! The executions of a batch or service job are spread as placement spreads them, each to the
//! emptiest node that has room, but they are not placed one by one: how many a node gets below
//! some load is a division, and the load that takes them all is found by bisection. So a count of a
//! million costs what a count of ten costs: O(n log l) for n nodes and l loads.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use api_types::job::{DryRunNode, JobType};
use api_types::quantity::Resources;
use api_types::{JobId, NodeId};

use crate::demand::Demand;
use crate::plan::{JobPlan, Plan};
use crate::state::State;
use crate::state::fit::Obstacle;
use crate::state::node::LiveNode;
use crate::views::reasons::{Collector, Reasons};

/// A node that has room, and what one execution takes of it.
struct Candidate {
    id: NodeId,
    used: Resources,
    capacity: Resources,
    need: Resources,
    /// Executions that fit.
    fits: u64,
}

/// What placement would do with a job now.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// Per node, whether an execution would be placed on it, and why not.
    pub nodes: Vec<DryRunNode>,
    pub reasons: Reasons,
}

// === Dry runs ===

pub(crate) fn preview(state: &State, plan: &JobPlan, count: u32) -> Preview {
    let demand = &plan.demand;
    let units = state.queue.groups.units_left(&plan.namespace, &plan.groups);
    let limit = if plan.max_running == 0 { units } else { plan.max_running.min(units) };
    let left = state.queue.quotas.left_for(&plan.namespace, &demand.need);
    let most = u32::try_from(left).unwrap_or(u32::MAX).min(limit);
    // It would be the youngest of its priority.
    let last = JobId::from_uuid(uuid::Uuid::max());
    let namespace = plan.namespace.as_str().into();
    let plan = Plan::new(plan, namespace, last, api_types::Timestamp::ZERO, state.clock);
    let obstacles: Vec<Option<Obstacle<'_>>> =
        state.nodes.values().map(|node| node.obstacle(demand, Some(&plan), state.clock)).collect();
    let mut reasons = Collector::new(demand);
    for (node, obstacle) in state.nodes.values().zip(&obstacles) {
        match obstacle {
            Some(obstacle) => reasons.refuses(node, obstacle),
            None => reasons.takes_it(),
        }
    }
    let candidates: Vec<Candidate> = state
        .nodes
        .values()
        .zip(&obstacles)
        .filter(|(_, obstacle)| obstacle.is_none())
        .map(|(node, _)| Candidate::new(node, demand))
        .collect();
    let given = match plan.job_type {
        JobType::Ops | JobType::Daemon => {
            candidates.iter().zip(0..).map(|(_, before)| u64::from(before < most)).collect()
        }
        JobType::Batch | JobType::Service => spread(&candidates, u64::from(count.min(most))),
    };
    let given: BTreeMap<NodeId, u64> =
        candidates.iter().map(|candidate| candidate.id).zip(given).collect();
    let nodes = state.nodes.keys().zip(obstacles);
    let nodes = nodes
        .map(|(id, obstacle)| {
            let given = given.get(id).copied().unwrap_or(0);
            let reason = match (obstacle, given) {
                (Some(obstacle), _) => obstacle.text(),
                (None, 0) if units == 0 => "has room, but its concurrency group is full".to_owned(),
                (None, 0) if most < limit => {
                    "has room, but the quota of the namespace does not suffice".to_owned()
                }
                (None, 0) if plan.is_per_node() => {
                    "has room, but a limit holds executions back".to_owned()
                }
                (None, 0) => "has room, but emptier nodes come first".to_owned(),
                (None, 1) => "would get 1 execution".to_owned(),
                (None, given) => format!("would get {given} executions"),
            };
            DryRunNode { node_id: *id, chosen: given > 0, reason }
        })
        .collect();
    Preview { nodes, reasons: reasons.finish() }
}

// === impl Candidate ===

impl Candidate {
    fn new(node: &LiveNode, demand: &Demand) -> Self {
        let need = demand.need.on(node.defaults());
        let free = node.free();
        let times = |free: u64, need: u64| free.checked_div(need).unwrap_or(u64::MAX);
        let fits = times(free.cpu_millis, need.cpu_millis)
            .min(times(free.memory_bytes, need.memory_bytes))
            .min(times(free.disk_bytes, need.disk_bytes))
            .min(times(free.gpus, need.gpus));
        Self { id: node.id(), used: *node.used(), capacity: *node.capacity(), need, fits }
    }

    /// The resources that make a node full: (used, needed by one execution, of).
    fn shares(&self) -> [(u64, u64, u64); 2] {
        let Self { used, capacity, need, .. } = self;
        [
            (used.cpu_millis, need.cpu_millis, capacity.cpu_millis),
            (used.memory_bytes, need.memory_bytes, capacity.memory_bytes),
        ]
    }

    /// The load of its fullest resource after this many more executions, in thousandths.
    #[cfg(test)]
    fn load(&self, given: u64) -> u64 {
        let share = |(used, need, of): (u64, u64, u64)| {
            let used = u128::from(used) + u128::from(given) * u128::from(need);
            u64::try_from(used * 1000 / u128::from(of.max(1))).unwrap_or(u64::MAX)
        };
        let [cpu, memory] = self.shares();
        share(cpu).max(share(memory))
    }

    /// How many executions it gets while its load is below this.
    fn below(&self, load: u64) -> u64 {
        let below = |(used, need, of): (u64, u64, u64)| {
            // The smallest amount in use that is not below the load.
            let bound = (u128::from(load) * u128::from(of.max(1))).div_ceil(1000);
            let left = bound.saturating_sub(u128::from(used));
            match (left, need) {
                (0, _) => 0,
                (_, 0) => u64::MAX,
                (left, need) => u64::try_from(left.div_ceil(u128::from(need))).unwrap_or(u64::MAX),
            }
        };
        let [cpu, memory] = self.shares();
        below(cpu).min(below(memory)).min(self.fits)
    }
}

/// How many of `count` executions each node gets, if each goes to the emptiest node that has room;
/// of equally full nodes, to the one that has been given fewest, then to the first.
fn spread(candidates: &[Candidate], count: u64) -> Vec<u64> {
    let fits = |candidate: &Candidate| candidate.fits.min(count);
    if total(candidates.iter().map(fits)) <= count {
        return candidates.iter().map(fits).collect();
    }
    // Loads below which all that a node gets is certain, and the ties at that load.
    let load =
        last_where(|load| total(candidates.iter().map(|candidate| candidate.below(load))) <= count);
    let floor: Vec<u64> = candidates.iter().map(|candidate| candidate.below(load)).collect();
    let ceiling: Vec<u64> = candidates.iter().map(|candidate| candidate.below(load + 1)).collect();
    let up_to = |most: u64| {
        floor.iter().zip(&ceiling).map(move |(floor, ceiling)| most.clamp(*floor, *ceiling))
    };
    let most = last_where(|most| total(up_to(most)) <= count);
    let mut left = count - total(up_to(most));
    let shares = up_to(most).zip(up_to(most + 1));
    shares
        .map(|(share, next)| {
            let more = (next - share).min(left);
            left -= more;
            share + more
        })
        .collect()
}

fn total(given: impl Iterator<Item = u64>) -> u64 {
    given.fold(0, u64::saturating_add)
}

/// The largest number for which a condition holds that holds for 0 and, once it does not hold, for
/// no larger number; below a quarter of what a `u64` holds.
fn last_where(holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (0, 1_u64);
    while high < u64::MAX / 4 && holds(high) {
        (low, high) = (high, high * 2);
    }
    while low + 1 < high {
        let middle = low + (high - low) / 2;
        if holds(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
    use uuid::Uuid;

    use super::*;

    /// Places one execution after the other.
    fn one_by_one(candidates: &[Candidate], count: u64) -> Vec<u64> {
        let mut given: Vec<u64> = candidates.iter().map(|_| 0).collect();
        for _ in 0..count {
            let emptiest = (0..candidates.len())
                .filter(|at| given[*at] < candidates[*at].fits)
                .min_by_key(|at| (candidates[*at].load(given[*at]), given[*at], *at));
            let Some(emptiest) = emptiest else { break };
            given[emptiest] += 1;
        }
        given
    }

    fn resources(cpu_millis: u64, memory_bytes: u64) -> Resources {
        Resources { cpu_millis, memory_bytes, disk_bytes: 0, gpus: 0 }
    }

    #[test]
    fn executions_are_spread_as_if_placed_one_by_one() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        for _ in 0..2000 {
            let mut below = |bound: u64| u64::from(random.next_u32()) % bound;
            let need = resources(below(3) * 250, below(3) * 100);
            let candidates: Vec<Candidate> = (0..1 + below(5))
                .map(|id| {
                    let capacity = resources(1000 + below(4000), 1000 + below(2000));
                    let used = resources(below(900), below(900));
                    Candidate {
                        id: NodeId::from_uuid(Uuid::from_u128(u128::from(id))),
                        used,
                        capacity,
                        need,
                        fits: below(30),
                    }
                })
                .collect();
            let count = below(60);
            assert_eq!(
                spread(&candidates, count),
                one_by_one(&candidates, count),
                "{count} of {need:?}"
            );
        }
    }

    #[test]
    fn all_of_many_executions_go_to_one_node_that_needs_nothing_of_it() {
        let candidate = |id: u128| Candidate {
            id: NodeId::from_uuid(Uuid::from_u128(id)),
            used: resources(0, 0),
            capacity: resources(1000, 1000),
            need: resources(0, 0),
            fits: u64::MAX,
        };
        assert_eq!(spread(&[candidate(1)], 1_000_000), [1_000_000]);
        assert_eq!(spread(&[candidate(1), candidate(2)], 1_000_001), [500_001, 500_000]);
    }
}
