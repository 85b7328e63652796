//! A node as the engine knows it: what it is, what it holds, and until when it is believed.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_types::node::{
    ComputeNodeInfo, Connection, Eligibility, Membership, Node, NodeType, PeerInfo,
};
use api_types::protocol::SessionRequest;
use api_types::quantity::{Capacity, Resources};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use super::change::NodeRow;
use super::demand::Demand;
use super::pool::{PoolId, Rank};

/// One compute node.
pub(super) struct LiveNode {
    pub(super) row: NodeRow,
    /// From the record, in whole units.
    pub(super) capacity: Resources,
    pub(super) max_job: Resources,
    pub(super) defaults: Resources,
    /// Debited for the executions below.
    pub(super) used: Resources,
    pub(super) executions: BTreeSet<ExecutionId>,
    /// Of these, how many the node has started.
    pub(super) running: u64,
    /// The node is lost when this moment passes without a heartbeat.
    pub(super) lease_until: Timestamp,
    /// Slots that may run here only, and wait.
    pub(super) pinned: BTreeSet<(Rank, u32)>,
    /// The pools that hold the node, under its present load.
    pub(super) pools: Vec<PoolId>,
    pub(super) load: Load,
}

/// How full a node is, in thousandths of whatever it has least of, and how many executions it has;
/// emptier nodes come first.
pub(super) type Load = (u32, u32);

/// Why a node will not take an execution now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Obstacle {
    /// Not connected, cordoned, not approved.
    Away(&'static str),
    /// It is not what the job asks for.
    Unfit(String),
    /// It could not take it even when empty.
    TooSmall(&'static str),
    /// It could, but not now.
    InUse(&'static str),
}

// === impl LiveNode ===

impl LiveNode {
    pub(super) fn new(row: NodeRow, lease_until: Timestamp) -> Self {
        let mut node = Self {
            row,
            capacity: Resources::ZERO,
            max_job: Resources::ZERO,
            defaults: Resources::ZERO,
            used: Resources::ZERO,
            executions: BTreeSet::new(),
            running: 0,
            lease_until,
            pinned: BTreeSet::new(),
            pools: Vec::new(),
            load: (0, 0),
        };
        node.read_record();
        node
    }

    pub(super) fn replace_record(&mut self, record: Arc<SessionRequest>) {
        self.row.record = record;
        self.read_record();
    }

    fn read_record(&mut self) {
        let info = &self.row.record.compute_node_info;
        self.capacity = info.max_capacity.into();
        self.max_job = match Resources::from(info.max_job_requirements) {
            // A node that names no bound has none of its own.
            Resources::ZERO => self.capacity,
            bound => bound,
        };
        self.defaults = self.row.record.default_resources.into();
    }

    /// Whether new work may be placed on it at all.
    pub(super) fn takes_work(&self) -> bool {
        self.away().is_none()
    }

    fn away(&self) -> Option<&'static str> {
        match (self.row.connection, self.row.membership, self.row.eligibility) {
            (Connection::Disconnected, _, _) => Some("disconnected"),
            (Connection::Connected, Membership::Pending, _) => Some("not approved yet"),
            (Connection::Connected, Membership::Rejected, _) => Some("rejected"),
            (Connection::Connected, Membership::Approved, Eligibility::Cordoned) => {
                Some("cordoned")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Draining) => {
                Some("draining")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Eligible) => None,
        }
    }

    pub(super) fn free(&self) -> Resources {
        self.capacity.minus(&self.used)
    }

    /// Whether an execution of this demand would be taken now, apart from being fit for it.
    pub(super) fn has_room(&self, demand: &Demand) -> bool {
        let need = demand.need.on(&self.defaults);
        need.fits_in(&self.free()) && need.fits_in(&self.max_job)
    }

    /// Why an execution of this demand cannot be placed here now, or nothing.
    pub(super) fn obstacle(&self, demand: &Demand) -> Option<Obstacle> {
        if let Some(away) = self.away() {
            return Some(Obstacle::Away(away));
        }
        if let Some(unfit) = self.unfit(demand) {
            return Some(Obstacle::Unfit(unfit));
        }
        let need = demand.need.on(&self.defaults);
        if let Some(what) =
            short_of(&need, &self.capacity).or_else(|| short_of(&need, &self.max_job))
        {
            return Some(Obstacle::TooSmall(what));
        }
        short_of(&need, &self.free()).map(Obstacle::InUse)
    }

    pub(super) fn unfit(&self, demand: &Demand) -> Option<String> {
        let record = &self.row.record;
        let info = &record.compute_node_info;
        demand.fit.obstacle(
            &record.labels,
            &info.execution_engines,
            &info.publishers,
            &info.storage_sources,
        )
    }

    /// How full it is now.
    pub(super) fn present_load(&self) -> Load {
        let share = |used: u64, of: u64| -> u32 {
            let thousandths = used.saturating_mul(1000).checked_div(of).unwrap_or(0);
            u32::try_from(thousandths).unwrap_or(u32::MAX)
        };
        let Resources { cpu_millis, memory_bytes, disk_bytes, gpus } = self.used;
        let fullest = share(cpu_millis, self.capacity.cpu_millis)
            // In KiB, so that the thousandfold stays within 64 bits.
            .max(share(memory_bytes >> 10, self.capacity.memory_bytes >> 10))
            .max(share(disk_bytes >> 10, self.capacity.disk_bytes >> 10))
            .max(share(gpus, self.capacity.gpus));
        (fullest, u32::try_from(self.executions.len()).unwrap_or(u32::MAX))
    }

    /// The record that the API answers.
    pub(super) fn wire(&self) -> Node {
        let record = &self.row.record;
        let info = &record.compute_node_info;
        let executions = u64::try_from(self.executions.len()).unwrap_or(u64::MAX);
        let last_heartbeat = match self.row.last_heartbeat {
            Timestamp::ZERO => String::new(),
            moment => moment.rfc3339(),
        };
        Node {
            peer_info: PeerInfo { id: self.row.id, addrs: record.addrs.clone() },
            node_type: NodeType::Compute,
            labels: record.labels.clone(),
            compute_node_info: ComputeNodeInfo {
                execution_engines: info.execution_engines.clone(),
                publishers: info.publishers.clone(),
                storage_sources: info.storage_sources.clone(),
                max_capacity: info.max_capacity,
                available_capacity: Capacity::from(self.free()),
                max_job_requirements: Capacity::from(self.max_job),
                running_executions: self.running,
                enqueued_executions: executions.saturating_sub(self.running),
            },
            service_version: record.service_version.clone(),
            membership: self.row.membership,
            connection: self.row.connection,
            eligibility: self.row.eligibility,
            last_heartbeat,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.row.id
    }

    pub(super) fn pin(&mut self, rank: Rank, index: u32) {
        self.pinned.insert((rank, index));
    }

    pub(super) fn unpin_job(&mut self, rank: Rank) -> Option<JobId> {
        let range = (rank, 0)..=(rank, u32::MAX);
        let slots: Vec<_> = self.pinned.range(range).copied().collect();
        slots.iter().for_each(|slot| {
            self.pinned.remove(slot);
        });
        (!slots.is_empty()).then_some(rank.job)
    }
}

/// The first thing that `need` wants more of than `room` has.
fn short_of(need: &Resources, room: &Resources) -> Option<&'static str> {
    if need.cpu_millis > room.cpu_millis {
        Some("CPU")
    } else if need.memory_bytes > room.memory_bytes {
        Some("memory")
    } else if need.disk_bytes > room.disk_bytes {
        Some("disk")
    } else if need.gpus > room.gpus {
        Some("GPU")
    } else {
        None
    }
}
