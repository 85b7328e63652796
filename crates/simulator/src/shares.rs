//! Shares: of two namespaces with equal jobs that wait, the one that holds less for its weight is next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::job::JobSpec;
use api_types::node::{Connection, Eligibility};
use api_types::quantity::Resources;
use api_types::{ExecutionId, JobId};
use control_plane::records::{Expected, RecordKind, RecordWrite};
use control_plane::store::memory::MemoryStore;

/// The namespaces, and their weights.
pub(super) const NAMESPACES: [(&str, u32); 2] = [("default", 1), ("other", 3)];

/// Parts into which a share is divided to compare it.
const WHOLE: u128 = 1_000_000_000_000;

/// What a division leaves over, twice.
const ROUNDING: u128 = 2;

/// How the two share the nodes at some time.
pub(super) struct Shared {
    total: Resources,
    of: BTreeMap<&'static str, Holdings>,
}

#[derive(Default)]
struct Holdings {
    /// What its live executions hold.
    held: BTreeMap<ExecutionId, Resources>,
    /// All of its executions, with their jobs.
    placed: BTreeMap<ExecutionId, JobId>,
    /// A job of it was never placed.
    waits: bool,
}

/// The change of the record of a namespace.
pub(super) fn write(namespace: &str, weight: u32) -> RecordWrite {
    let key = RecordKind::Namespace.key(namespace);
    RecordWrite::json(key, Expected::Anything, &BTreeMap::from([("Weight", weight)]))
}

/// Panics if a commit placed work of a namespace while the other one, whose equal jobs waited, held
/// less for its weight. Jobs for which a node was reserved need not care.
///
/// At its last placement, a namespace held at least what it holds after the commit, and the other one
/// at most what it holds then and gave back in the commit.
pub(super) fn check(before: &Shared, after: &Shared, reserved: &BTreeSet<JobId>) {
    if before.total != after.total {
        return;
    }
    for (this, other) in [(0, 1), (1, 0)] {
        let [(this, weight), (other, of_other)] = [this, other].map(|at| NAMESPACES[at]);
        let (ours, theirs) = (&after.of[this], &after.of[other]);
        let is_new = |(id, job): &(&ExecutionId, &JobId)| {
            !before.of[this].placed.contains_key(id) && !reserved.contains(job)
        };
        let newest = ours.placed.iter().find(is_new).and_then(|(id, _)| ours.held.get(id));
        let Some(newest) = newest else { continue };
        if !theirs.waits || !before.of[other].waits {
            continue;
        }
        let given_back = before.of[other].held.iter();
        let given_back = given_back.filter(|(id, held)| theirs.held.get(id) != Some(held));
        let then = given_back.fold(theirs.sum(), |sum, (_, held)| sum.plus(held));
        let [ours, theirs] = [(ours.sum().minus(newest), weight), (then, of_other)]
            .map(|(held, weight)| after.share(&held) / u128::from(weight));
        assert!(
            ours <= theirs + ROUNDING,
            "'{this}' got room with a share of {ours}, and '{other}' with {theirs} waits"
        );
    }
}

// === impl Shared ===

impl Shared {
    pub(super) fn of(store: &MemoryStore, specs: &BTreeMap<JobId, Arc<JobSpec>>) -> Self {
        let in_service = store.nodes.values().filter(|row| {
            (row.connection, row.eligibility) == (Connection::Connected, Eligibility::Eligible)
        });
        let capacities =
            in_service.map(|row| Resources::from(row.record.compute_node_info.max_capacity));
        let total = capacities.fold(Resources::ZERO, |total, of| total.plus(&of));
        let mut of = BTreeMap::from(NAMESPACES.map(|(name, _)| (name, Holdings::default())));
        for (id, spec) in specs {
            let Some(holdings) = of.get_mut(spec.namespace.as_str()) else { continue };
            let rows = store.executions_of(*id);
            holdings.waits |= rows.is_empty() && store.jobs.get(id).is_some_and(|row| row.live);
            for row in rows {
                holdings.placed.insert(row.id, *id);
                if !row.compute.is_terminal() && row.process_ended_at.is_none() {
                    holdings.held.insert(row.id, row.resources);
                }
            }
        }
        Self { total, of }
    }

    /// The largest part of a resource.
    fn share(&self, held: &Resources) -> u128 {
        let part = |held: u64, total: u64| {
            (u128::from(held) * WHOLE).checked_div(u128::from(total)).unwrap_or_default()
        };
        let cpu = part(held.cpu_millis, self.total.cpu_millis);
        cpu.max(part(held.memory_bytes, self.total.memory_bytes))
    }
}

// === impl Holdings ===

impl Holdings {
    fn sum(&self) -> Resources {
        self.held.values().fold(Resources::ZERO, |sum, held| sum.plus(held))
    }
}
