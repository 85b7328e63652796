//! Clients change the quota of the namespace, and end without one.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::node::{Connection, Eligibility};
use api_types::quantity::Resources;
use api_types::{ExecutionId, NodeId};
use control_plane::store::memory::MemoryStore;
use scheduler::Quota;
use scheduler::change::{JobRow, NodeRow};
use scheduler::demand::Demand;

use super::World;
use crate::network::RequestBody;
use crate::orchestrator::Disk;
use crate::quotas;
use crate::random::Random;
use crate::summary::Sabotage;

/// Changes of the quota while there are faults.
const CHANGES: u64 = 3;

/// Of four runs, one has quotas: they keep nodes idle, on which other things could happen.
const RUNS: u64 = 4;

// === impl World: quotas ===

impl World {
    /// The draws are apart from those of the run, whose workload stays.
    pub(super) fn change_quotas(&mut self, seed: u64) {
        if !seed.is_multiple_of(RUNS) {
            return;
        }
        let mut random = Random::new(seed.wrapping_add(u64::MAX / 2));
        for _ in 0..CHANGES {
            let cpu_millis = random.chance(700).then(|| 250 * random.within(0..24));
            let executions = u32::try_from(random.within(0..8)).expect("small");
            let executions = random.chance(500).then_some(executions);
            let delay = random.millis(0..40_000);
            self.put_quota(cpu_millis, executions, true, delay);
        }
    }

    /// What waits for a quota that is too small would wait for ever.
    pub(super) fn remove_quota(&mut self) {
        let is_change = |body: &RequestBody| matches!(body, RequestBody::PutQuota { .. });
        if self.requests.iter().any(|request| is_change(&request.body)) {
            self.put_quota(None, None, true, Duration::from_secs(2));
        }
    }

    fn put_quota(
        &mut self,
        cpu_millis: Option<u64>,
        executions: Option<u32>,
        is_stored: bool,
        delay: Duration,
    ) {
        let body = RequestBody::PutQuota { cpu_millis, executions, is_stored };
        self.add_request(body, delay);
    }

    /// Sabotage: the scheduler gets a quota of one execution less than is in use, so that an end gives
    /// nothing back.
    pub(super) fn keep_quota(&mut self) {
        if self.keeps_quota() {
            let used = quotas::used(&self.orchestrator.disk.store).executions;
            let executions = u32::try_from(used.saturating_sub(1)).unwrap_or(u32::MAX);
            self.put_quota(None, Some(executions), false, Duration::ZERO);
        }
    }

    /// Whether an end is to give nothing back until the next call.
    fn keeps_quota(&mut self) -> bool {
        match self.sabotage {
            Some(Sabotage::KeepQuota) => true,
            Some(Sabotage::KeepQuotaElsewhere) => {
                let disk = &self.orchestrator.disk;
                let waits = waits_elsewhere(disk, &self.last_holders);
                self.last_holders = holders(&disk.store);
                if !waits {
                    let Quota { cpu_millis, executions, .. } = disk.quotas.last();
                    let executions = executions.and_then(|it| u32::try_from(it).ok());
                    self.put_quota(cpu_millis, executions, false, Duration::ZERO);
                }
                waits
            }
            _ => false,
        }
    }
}

// === What a node could run ===

/// Where each live execution is.
fn holders(store: &MemoryStore) -> BTreeMap<ExecutionId, NodeId> {
    let live = store.executions.values().filter(|row| !row.compute.is_terminal());
    live.map(|row| (row.id, row.node)).collect()
}

/// Whether jobs wait for the quota, and none of them could run on a node that gave something of it
/// back. These executions were live before.
fn waits_elsewhere(disk: &Disk, before: &BTreeMap<ExecutionId, NodeId>) -> bool {
    let store = &disk.store;
    let says = |row: &&JobRow| row.live && row.message.starts_with(quotas::SAYS);
    let mut waiting = store.jobs.values().filter(says).peekable();
    if waiting.peek().is_none() {
        return false;
    }
    let now = holders(store);
    let gave_back: Vec<_> = before
        .iter()
        .filter(|(id, _)| !now.contains_key(id))
        .filter_map(|(_, node)| store.nodes.get(node))
        .collect();
    let could_run = |row: &JobRow| {
        let demand = Demand::from_spec(&disk.specs[&row.id]).expect("it was accepted");
        gave_back.iter().any(|node| takes(store, node, &demand))
    };
    !waiting.any(could_run)
}

fn takes(store: &MemoryStore, node: &NodeRow, demand: &Demand) -> bool {
    let info = &node.record.compute_node_info;
    let live = store.executions.values().filter(|row| !row.compute.is_terminal());
    let used: u64 =
        live.filter(|row| row.node == node.id).map(|row| row.resources.cpu_millis).sum();
    let capacity = Resources::from(info.max_capacity).cpu_millis;
    let (engines, publishers) = (&info.execution_engines, &info.publishers);
    let unmet = demand.fit.unmet(&node.record.labels, engines, publishers, &info.storage_sources);
    unmet.is_none()
        && node.connection == Connection::Connected
        && node.eligibility == Eligibility::Eligible
        && used + demand.need.cpu_millis.unwrap_or_default() <= capacity
}
