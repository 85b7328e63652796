//! A node as the scheduler knows it: its properties, its executions and its lease.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::history::NodeStateType;
use api_types::node::{
    ComputeNodeInfo, Connection, Eligibility, HealthState, Membership, Node, NodeHealth, NodeType,
    PeerInfo,
};
use api_types::protocol::SessionRequest;
use api_types::quantity::{Capacity, Resources};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::change::NodeRow;
use crate::demand::{Demand, Unmet};
use crate::heads::Limits;
use crate::health::{Failures, Health};
use crate::plan::Plan;
use crate::pool::{Place, Rank};
use crate::reservation::Reservation;
use crate::text::Text;
use crate::time::Moment;

/// One compute node.
pub(crate) struct LiveNode {
    pub(crate) row: NodeRow,
    /// From the record, in integer units.
    pub(crate) capacity: Resources,
    pub(crate) max_job: Resources,
    pub(crate) defaults: Resources,
    /// The resources reserved by the executions below.
    pub(crate) used: Resources,
    /// Of this, what services and daemons have: they do not end by themselves.
    pub(crate) unending: Resources,
    pub(crate) executions: BTreeSet<ExecutionId>,
    /// Of these, how many the node has started.
    pub(crate) running: u64,
    /// The lease ends at this moment unless a heartbeat arrives before.
    pub(crate) lease_until: Moment,
    /// When the node was last heard from.
    pub(crate) heard_at: Moment,
    /// When it was last heard after its heartbeat was long overdue.
    pub(crate) returned_at: Moment,
    /// When its last lease ended.
    pub(crate) lost_lease_at: Moment,
    /// The lease in the response to its last heartbeat.
    pub(crate) answered: Duration,
    /// The agent hangs: its heartbeats arrive, but it makes no progress. Since when, for display.
    pub(crate) stalled_since: Option<Timestamp>,
    /// Why its executions are not waited for, although it is silent.
    pub(crate) abandoned: Option<Text>,
    /// Waiting slots that may run on this node only.
    pub(crate) pinned: BTreeSet<(Rank, u32)>,
    /// Slots that may run on this node only and wait for the end of a delay; some may have ended.
    pub(crate) delayed: BTreeSet<(JobId, u32)>,
    /// For whom it is kept free.
    pub(crate) reservation: Option<Reservation>,
    /// Consecutive failures while the node is healthy.
    pub(crate) failures: Failures,
    /// Its place in the sets of the pools, once it has one.
    pub(crate) place: Option<Place>,
    /// Whether those sets follow its properties, or will.
    pub(crate) is_compared: bool,
}

/// The usage of a node's scarcest resource in thousandths, and its number of executions; emptier
/// nodes sort first.
pub(crate) type Load = (u32, u32);

/// Why a node will not take an execution now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Obstacle {
    /// Not connected, cordoned, or not approved.
    Away(&'static str),
    /// The node lacks a property that the job requires.
    Unfit(String),
    /// The node could not run it even when empty.
    TooSmall(&'static str),
    /// The node could run it, but not now.
    InUse(&'static str),
    /// It has room, and is reserved for work of a higher rank.
    Reserved,
}

// === impl LiveNode ===

impl LiveNode {
    pub(crate) fn new(row: NodeRow, lease_until: Moment) -> Self {
        let answered = row.grant.lease.max(row.grant.kept);
        // Until a heartbeat says otherwise.
        let is_stalled = row.history.standing.health == NodeStateType::Stalled;
        let stalled_since = is_stalled.then_some(row.history.last_event_time);
        let mut node = Self {
            row,
            capacity: Resources::ZERO,
            max_job: Resources::ZERO,
            defaults: Resources::ZERO,
            used: Resources::ZERO,
            unending: Resources::ZERO,
            executions: BTreeSet::new(),
            running: 0,
            lease_until,
            heard_at: Moment::ZERO,
            returned_at: Moment::ZERO,
            lost_lease_at: Moment::ZERO,
            answered,
            stalled_since,
            abandoned: None,
            pinned: BTreeSet::new(),
            delayed: BTreeSet::new(),
            reservation: None,
            failures: Failures::default(),
            place: None,
            is_compared: false,
        };
        node.read_record();
        node
    }

    pub(crate) fn replace_record(&mut self, record: Arc<SessionRequest>) {
        let before = core::mem::replace(&mut self.row.record, record);
        let (before, after) = (&before, &self.row.record);
        let (had, has) = (&before.compute_node_info, &after.compute_node_info);
        self.is_compared &= before.labels == after.labels
            && had.execution_engines == has.execution_engines
            && had.publishers == has.publishers
            && had.storage_sources == has.storage_sources;
        self.read_record();
    }

    fn read_record(&mut self) {
        let info = &self.row.record.compute_node_info;
        self.capacity = info.max_capacity.into();
        self.max_job = match Resources::from(info.max_job_requirements) {
            // A node that declares no bound is bounded by its capacity alone.
            Resources::ZERO => self.capacity,
            bound => bound,
        };
        self.defaults = self.row.record.default_resources.into();
    }

    /// Whether the node takes new work at all.
    pub(crate) fn takes_work(&self) -> bool {
        self.away().is_none()
    }

    /// Whether nothing but a trouble that may pass by itself keeps it from work.
    pub(crate) fn is_in_service(&self) -> bool {
        let NodeRow { connection, membership, eligibility, .. } = &self.row;
        (connection, membership, eligibility)
            == (&Connection::Connected, &Membership::Approved, &Eligibility::Eligible)
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
            (Connection::Connected, Membership::Approved, Eligibility::Eligible)
                if self.stalled_since.is_some() =>
            {
                Some("stalled: its agent does not finish what it is doing")
            }
            (Connection::Connected, Membership::Approved, Eligibility::Eligible) => {
                self.row.health.obstacle()
            }
        }
    }

    pub(crate) fn free(&self) -> Resources {
        self.capacity.minus(&self.used)
    }

    /// What an execution may take of it now.
    pub(crate) fn limits(&self) -> Limits {
        Limits { room: self.free().least(&self.max_job), defaults: self.defaults }
    }

    /// Whether an execution of this demand fits now, not counting the required properties.
    pub(crate) fn has_room(&self, demand: &Demand) -> bool {
        let need = demand.need.on(&self.defaults);
        need.fits_in(&self.free()) && need.fits_in(&self.max_job)
    }

    /// Whether it has room, and keeps it free for nobody else.
    pub(crate) fn takes_now(&self, demand: &Demand, plan: &Plan, now: Moment) -> bool {
        self.has_room(demand) && !self.keeps_off(plan, &demand.need.on(&self.defaults), now)
    }

    /// Why an execution of this demand cannot be placed here now, or `None`.
    ///
    /// `plan` is that of the job that asks, if one does.
    pub(crate) fn obstacle(
        &self,
        demand: &Demand,
        plan: Option<&Plan>,
        now: Moment,
    ) -> Option<Obstacle> {
        if let Some(away) = self.away() {
            return Some(Obstacle::Away(away));
        }
        if let Some(unfit) = self.unfit(demand) {
            return Some(Obstacle::Unfit(unfit.to_string()));
        }
        let need = demand.need.on(&self.defaults);
        if let Some(what) =
            short_of(&need, &self.capacity).or_else(|| short_of(&need, &self.max_job))
        {
            return Some(Obstacle::TooSmall(what));
        }
        if let Some(what) = short_of(&need, &self.free()) {
            return Some(Obstacle::InUse(what));
        }
        let kept_off = plan.is_some_and(|plan| self.keeps_off(plan, &need, now));
        kept_off.then_some(Obstacle::Reserved)
    }

    pub(crate) fn unfit<'a>(&self, demand: &'a Demand) -> Option<Unmet<'a>> {
        let record = &self.row.record;
        let info = &record.compute_node_info;
        demand.fit.unmet(
            &record.labels,
            &info.execution_engines,
            &info.publishers,
            &info.storage_sources,
        )
    }

    /// The current load.
    pub(crate) fn present_load(&self) -> Load {
        let share = |used: u64, of: u64| -> u32 {
            let thousandths = used.saturating_mul(1000).checked_div(of).unwrap_or(0);
            u32::try_from(thousandths).unwrap_or(u32::MAX)
        };
        let Resources { cpu_millis, memory_bytes, disk_bytes, gpus } = self.used;
        let fullest = share(cpu_millis, self.capacity.cpu_millis)
            // In KiB, so that a thousand times the value fits in 64 bits.
            .max(share(memory_bytes >> 10, self.capacity.memory_bytes >> 10))
            .max(share(disk_bytes >> 10, self.capacity.disk_bytes >> 10))
            .max(share(gpus, self.capacity.gpus));
        (fullest, u32::try_from(self.executions.len()).unwrap_or(u32::MAX))
    }

    /// The record that the API returns.
    pub(crate) fn wire(&self) -> Node {
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
            health: self.wire_health(),
            reserved_since: self
                .reservation
                .as_ref()
                .map_or_else(String::new, |reservation| reservation.since.rfc3339()),
            last_heartbeat,
        }
    }

    fn wire_health(&self) -> NodeHealth {
        let troubled = |state, reason: String, since: Timestamp| NodeHealth {
            state,
            reason,
            since: since.rfc3339(),
            next_try: String::new(),
        };
        if self.row.silent_since.is_some() {
            let reason = match self.executions.len() {
                0 => "no heartbeat".to_owned(),
                1 => "no heartbeat; 1 execution waits for it to return".to_owned(),
                waiting => format!("no heartbeat; {waiting} executions wait for it to return"),
            };
            return troubled(HealthState::Silent, reason, self.row.last_heartbeat);
        }
        if let Some(since) = self.stalled_since {
            let reason = "its agent does not finish what it is doing".to_owned();
            return troubled(HealthState::Stalled, reason, since);
        }
        match &self.row.health {
            Health::Well => NodeHealth::default(),
            Health::BackingOff { until, trouble, .. } => {
                let wait = until.since(trouble.began);
                let next_try = (trouble.since + wait).rfc3339();
                let reason = trouble.reason.to_string();
                let health = troubled(HealthState::BackingOff, reason, trouble.since);
                NodeHealth { next_try, ..health }
            }
            Health::Probing { trouble, .. } => {
                troubled(HealthState::Probing, trouble.reason.to_string(), trouble.since)
            }
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.row.id
    }

    pub(crate) fn pin(&mut self, rank: Rank, index: u32) {
        self.pinned.insert((rank, index));
    }

    /// The slots of a job that wait for this node.
    pub(crate) fn pins(&self, rank: Rank) -> impl Iterator<Item = (Rank, u32)> {
        self.pinned.range((rank, 0)..=(rank, u32::MAX)).copied()
    }

    pub(crate) fn unpin_job(&mut self, rank: Rank) -> Option<JobId> {
        let slots: Vec<_> = self.pins(rank).collect();
        slots.iter().for_each(|slot| {
            self.pinned.remove(slot);
        });
        (!slots.is_empty()).then_some(rank.job)
    }
}

/// The first resource of which `need` exceeds `room`.
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
