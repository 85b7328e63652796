//! A node as the scheduler knows it: its properties, its executions and its lease.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::history::NodeStateType;
use api_types::protocol::SessionRequest;
use api_types::quantity::Resources;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::agents::Agents;
use crate::change::NodeRow;
use crate::health::Health;
use crate::health::failures::Failures;
use crate::occupancy::Occupancy;
use crate::queue::Queue;
use crate::queue::nodes::{Load, NodeBit};
use crate::rank::Rank;
use crate::reservation::Reservation;
use crate::text::Text;
use crate::time::Moment;

/// One compute node.
pub(crate) struct LiveNode {
    pub(super) row: NodeRow,
    /// From the record, in integer units.
    pub(super) capacity: Resources,
    pub(super) max_job: Resources,
    pub(super) defaults: Resources,
    /// The resources reserved by the executions below.
    pub(super) used: Resources,
    /// Of this, what services and daemons have: they do not end by themselves.
    pub(super) unending: Resources,
    pub(super) executions: BTreeSet<ExecutionId>,
    /// Of these, how many the node has started.
    pub(super) running: u64,
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
    pub(super) stalled_since: Option<Timestamp>,
    /// Why its executions are not waited for, although it is silent.
    pub(crate) abandoned: Option<Text>,
    /// Waiting slots that may run on this node only.
    pub(super) pinned: BTreeSet<(Rank, u32)>,
    /// Of these, those of jobs that no gate holds.
    pub(super) unheld: BTreeSet<(Rank, u32)>,
    /// Slots that may run on this node only and wait for the end of a delay; some may have ended.
    pub(super) delayed: BTreeSet<(JobId, u32)>,
    /// For whom it is kept free.
    pub(super) reservation: Option<Reservation>,
    /// Consecutive failures while the node is healthy.
    pub(crate) failures: Failures,
    /// Its bit in the sets of the pools, once it has one.
    pub(super) bit: Option<NodeBit>,
    /// Whether those sets follow its properties, or will.
    pub(super) is_compared: bool,
    /// Whether its row was changed and is not stored yet.
    pub(super) is_edited: bool,
    /// The processes that have its identity.
    pub(crate) agents: Agents,
    pub(super) occupancy: Occupancy,
}

// === impl LiveNode ===

impl LiveNode {
    pub(crate) fn new(row: NodeRow, lease_until: Moment) -> Self {
        let answered = row.grant.lease.max(row.grant.kept);
        // Until a heartbeat says otherwise.
        let is_stalled = row.history.standing.health == NodeStateType::Stalled;
        let stalled_since = is_stalled.then_some(row.history.last_event_time);
        let is_idle_stored = row.idle_since.is_some();
        let occupancy = Occupancy { is_idle_stored, ..Occupancy::default() };
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
            unheld: BTreeSet::new(),
            delayed: BTreeSet::new(),
            reservation: None,
            failures: Failures::default(),
            bit: None,
            is_compared: false,
            is_edited: false,
            agents: Agents::default(),
            occupancy,
        };
        node.agents.joined(node.row.record.process.as_ref(), Moment::ZERO, Duration::ZERO);
        node.read_record();
        node
    }

    pub(crate) fn replace_record(&mut self, record: Arc<SessionRequest>) {
        self.is_edited = true;
        let before = core::mem::replace(&mut self.row.record, record);
        let (before, after) = (&before, &self.row.record);
        let (had, has) = (&before.compute_node_info, &after.compute_node_info);
        self.is_compared &= before.labels == after.labels
            && had.execution_engines == has.execution_engines
            && had.publishers == has.publishers
            && had.storage_sources == has.storage_sources;
        self.read_record();
    }

    pub(crate) fn read_record(&mut self) {
        let info = &self.row.record.compute_node_info;
        self.capacity = info.max_capacity.into();
        self.max_job = match Resources::from(info.max_job_requirements) {
            // A node that declares no bound is bounded by its capacity alone.
            Resources::ZERO => self.capacity,
            bound => bound,
        };
        self.defaults = self.row.record.default_resources.into();
    }

    pub(crate) fn free(&self) -> Resources {
        self.capacity.minus(&self.used)
    }

    /// Whether its agent can be asked for a probe.
    pub(crate) fn can_be_asked(&self) -> bool {
        self.row.record.probes
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

    pub(crate) fn id(&self) -> NodeId {
        self.row.id
    }

    pub(crate) fn row(&self) -> &NodeRow {
        &self.row
    }

    /// The row, for changes that [`State::store_node`](crate::state::State::store_node) has to follow
    /// before the event is over.
    pub(crate) fn edit(&mut self) -> &mut NodeRow {
        self.is_edited = true;
        &mut self.row
    }

    /// The health decides by itself what changes; the caller stores the node if its verdict says so.
    pub(crate) fn health_mut(&mut self) -> (&mut Health, &mut Failures) {
        (&mut self.row.health, &mut self.failures)
    }

    /// A heartbeat arrived; the time is shown, and stored with the next change.
    pub(crate) fn heard(&mut self, at: Timestamp) {
        self.row.last_heartbeat = at;
    }

    /// Since when its agent hangs. The node is to be stored.
    pub(crate) fn set_stalled(&mut self, since: Option<Timestamp>) {
        self.is_edited = true;
        self.stalled_since = since;
    }

    pub(crate) fn capacity(&self) -> &Resources {
        &self.capacity
    }

    pub(crate) fn max_job(&self) -> &Resources {
        &self.max_job
    }

    pub(crate) fn defaults(&self) -> &Resources {
        &self.defaults
    }

    pub(crate) fn used(&self) -> &Resources {
        &self.used
    }

    pub(crate) fn unending(&self) -> &Resources {
        &self.unending
    }

    pub(crate) fn executions(&self) -> &BTreeSet<ExecutionId> {
        &self.executions
    }

    pub(crate) fn running(&self) -> u64 {
        self.running
    }

    pub(crate) fn stalled_since(&self) -> Option<Timestamp> {
        self.stalled_since
    }

    pub(crate) fn pinned(&self) -> &BTreeSet<(Rank, u32)> {
        &self.pinned
    }

    /// The slots that wait for room here, not at a gate.
    pub(crate) fn unheld(&self) -> &BTreeSet<(Rank, u32)> {
        &self.unheld
    }

    pub(crate) fn delayed(&self) -> &BTreeSet<(JobId, u32)> {
        &self.delayed
    }

    pub(crate) fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    pub(crate) fn bit(&self) -> Option<NodeBit> {
        self.bit
    }

    pub(crate) fn is_edited(&self) -> bool {
        self.is_edited
    }

    /// An execution holds this from now on.
    pub(super) fn take(&mut self, held: &Resources, is_finite: bool) {
        self.used = self.used.plus(held);
        if !is_finite {
            self.unending = self.unending.plus(held);
        }
    }

    /// An execution holds this no longer.
    pub(super) fn give_back(&mut self, freed: &Resources, is_finite: bool) {
        self.used = self.used.minus(freed);
        if !is_finite {
            self.unending = self.unending.minus(freed);
        }
    }

    /// Its load changed.
    pub(super) fn reload(&self, queue: &mut Queue) {
        if let Some(bit) = self.bit {
            queue.reload(bit, self.present_load());
        }
    }

    pub(super) fn pin(&mut self, slot: (Rank, u32), is_held: bool) {
        self.pinned.insert(slot);
        self.set_held(slot, is_held);
    }

    pub(super) fn unpin(&mut self, slot: (Rank, u32)) {
        self.pinned.remove(&slot);
        self.unheld.remove(&slot);
    }

    /// Whether a gate holds the job of a slot that waits here.
    pub(super) fn set_held(&mut self, slot: (Rank, u32), is_held: bool) {
        match is_held || !self.pinned.contains(&slot) {
            true => self.unheld.remove(&slot),
            false => self.unheld.insert(slot),
        };
    }

    /// The slots of a job that wait for this node.
    pub(crate) fn pins(&self, rank: Rank) -> impl Iterator<Item = (Rank, u32)> {
        self.pinned.range((rank, 0)..=(rank, u32::MAX)).copied()
    }

    pub(super) fn unpin_job(&mut self, rank: Rank) -> Option<JobId> {
        let slots: Vec<_> = self.pins(rank).collect();
        slots.iter().for_each(|slot| self.unpin(*slot));
        (!slots.is_empty()).then_some(rank.job)
    }
}

/// What queues know of the nodes that have a bit.
pub(super) fn bits(
    nodes: &BTreeMap<NodeId, LiveNode>,
) -> impl Iterator<Item = (NodeBit, &SessionRequest)> {
    nodes.values().filter_map(|node| Some((node.bit?, &*node.row.record)))
}
