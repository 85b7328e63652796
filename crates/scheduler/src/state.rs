//! The state of everything that is live.
//!
//! Rules are functions of it. None of them can place anything: that takes a
//! [`Settle`](crate::settle::leftover::Settle), which no rule has. A rule marks what may follow from a change.

pub(crate) mod counterparts;
pub(crate) mod dependants;
pub(crate) mod execution;
pub(crate) mod executions;
pub(crate) mod extras;
pub(crate) mod fit;
pub(crate) mod gate;
pub(crate) mod history;
pub(crate) mod holders;
pub(crate) mod idle;
pub(crate) mod job;
pub(crate) mod jobs;
pub(crate) mod namespaces;
pub(crate) mod node;
pub(crate) mod nodes;
pub(crate) mod outcomes;
mod past;
pub(crate) mod pending;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use api_types::gate::GateType;
use api_types::node::{Connection, Membership};
use api_types::{JobId, NodeId};

use crate::change::ExecutionRow;
use crate::fetch::Missing;
use crate::input::Refusal;
use crate::keyed::{HashKey, Table};
use crate::marks::Marks;
use crate::mint::Mint;
use crate::queue::Queue;
use crate::reservation::Reservations;
use crate::settings::Settings;
use crate::silence::Silence;
use crate::state::dependants::NamedJobs;
use crate::state::job::LiveJob;
use crate::state::namespaces::Namespaces;
use crate::state::node::LiveNode;
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timers;

/// The lease grows with the number of nodes, so that all heartbeats together, three per lease, stay
/// below a thousand per second.
const MILLIS_PER_NODE: u64 = 3;

/// The lease grows in steps of this many seconds, because each change is stored with every node.
const LEASE_STEP: u64 = 5;

/// The state of everything that is live.
pub(crate) struct State {
    pub(crate) settings: Settings,
    pub(crate) mint: Mint,
    pub(crate) nodes: BTreeMap<NodeId, LiveNode>,
    /// Boxed, because half of a large table may be empty.
    pub(crate) jobs: Table<Box<LiveJob>>,
    pub(crate) executions: Table<Box<ExecutionRow>>,
    pub(crate) queue: Queue,
    /// Live daemon jobs; a node that joins may have to run them.
    pub(crate) daemons: BTreeSet<JobId>,
    pub(crate) namespaces: Namespaces,
    /// Jobs that others wait for.
    pub(crate) named: NamedJobs,
    /// Live jobs with slots that a gate holds, by its type.
    pub(crate) gated: BTreeMap<GateType, u64>,
    /// Nodes that may back off because of what a single namespace says.
    pub(crate) doubted: BTreeSet<NodeId>,
    pub(crate) timers: Timers,
    pub(crate) silence: Silence,
    /// No offer is taken back before this moment: for a while before it, no answer could arrive.
    pub(crate) answers_due: Moment,
    pub(crate) missing: Missing,
    pub(crate) reservations: Reservations,
    /// Of the event that is being handled.
    pub(crate) marks: Marks,
    pub(crate) last_seq: u64,
    /// The latest moment that an input carried.
    pub(crate) clock: Moment,
    /// Nodes whose record changed since [`take_touched_nodes`](crate::Scheduler::take_touched_nodes).
    pub(crate) touched: BTreeSet<NodeId>,
    /// Nodes heard from since [`take_heard_nodes`](crate::Scheduler::take_heard_nodes).
    pub(crate) heard_from: BTreeSet<NodeId>,
    /// Incremented whenever a node joins, leaves, or changes its properties.
    pub(crate) fleet_changes: u64,
}

// === impl State ===

impl State {
    pub(crate) fn new(settings: Settings, mut mint: Mint) -> Self {
        let key = HashKey::draw(&mut mint);
        Self {
            settings,
            mint,
            nodes: BTreeMap::new(),
            jobs: Table::with_hasher(key),
            executions: Table::with_hasher(key),
            queue: Queue::new(key),
            daemons: BTreeSet::new(),
            namespaces: Namespaces::default(),
            named: NamedJobs::new(),
            gated: BTreeMap::new(),
            doubted: BTreeSet::new(),
            timers: Timers::new(key),
            silence: Silence::default(),
            answers_due: Moment::ZERO,
            reservations: Reservations::default(),
            missing: Missing::default(),
            marks: Marks::default(),
            last_seq: 0,
            clock: Moment::ZERO,
            touched: BTreeSet::new(),
            heard_from: BTreeSet::new(),
            fleet_changes: 0,
        }
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }
}

// === impl State: leases ===

impl State {
    /// How long a node may be silent before its lease ends; it sends three heartbeats per lease.
    pub(crate) fn lease(&self) -> Duration {
        let needed = Duration::from_millis(MILLIS_PER_NODE.saturating_mul(self.nodes.len() as u64));
        if needed <= self.settings.lease {
            return self.settings.lease;
        }
        Duration::from_secs((needed.as_secs() + 1).next_multiple_of(LEASE_STEP))
    }

    /// Whether most nodes are silent, so that nothing is given up for now.
    pub(crate) fn is_mass_silence(&self) -> bool {
        self.silence.mass.held_until().is_some()
    }
}

impl State {
    pub(crate) fn check_session(&self, id: NodeId, came: u64) -> Option<Refusal> {
        let Some(node) = self.nodes.get(&id) else { return Some(Refusal::NoSuchNode(id)) };
        if node.row.membership == Membership::Rejected {
            return Some(Refusal::NodeRejected(id));
        }
        if node.row.session != came {
            return Some(Refusal::StaleSession { node: id, came, current: node.row.session });
        }
        match node.row.connection {
            Connection::Connected => None,
            Connection::Disconnected => Some(Refusal::LeaseExpired(id)),
        }
    }
}

impl State {
    /// Why the job is over; none if it is not.
    pub(crate) fn why_over(&self, id: JobId) -> Option<Text> {
        let job = self.jobs.get(&id).filter(|job| job.is_terminal());
        job.map(|job| job.row.message.clone())
    }
}
