//! The pure scheduler: state, now and an input become changes and effects.
//!
//! No clock, no randomness, no I/O: the time comes with each input, and IDs come from a seeded
//! [`mint::Mint`]. The crate does not use the standard library, so that the compiler refuses a
//! clock, a file, a socket or a thread. The state holds what is live: nodes, jobs that have work
//! left, their executions, the queue. Everything finished lives in the store only.
//!
//! Costs, with n nodes and p pools (see [`pool`]): a submission, a report or a placement is O(p log
//! n); a heartbeat O(1); a node that joins, leaves or changes O(p) plus the work it runs; the first
//! job that finds its class full O(n). A namespace makes classes of its own: each costs what a class
//! of another demand costs, and its first job finds it full by itself. While a backlog is left, a
//! submission also compares itself with the best of its pool's classes: one in 4096 of them, and 16
//! entries of the backlog. Memory: one [`job::LiveJob`] and a queue entry per queued
//! job (specifications stay in the store), and one row per execution.

#![no_std]

extern crate alloc;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::time::Duration;

use api_types::node::Node;
use api_types::{JobId, NodeId, Timestamp};

mod backlog;
mod census;
pub mod change;
pub mod demand;
mod dry_run;
mod ending;
pub mod exclusion;
mod execution;
mod explain;
mod extras;
mod fetch;
mod heads;
pub mod health;
pub mod input;
pub mod invariants;
mod job;
mod keyed;
mod mass_silence;
pub mod mint;
mod node;
pub mod node_event;
mod notice;
mod offer;
mod patience;
mod pending;
mod placement;
pub mod plan;
mod pool;
mod process_end;
mod reservation;
mod restore;
mod retry;
mod session;
pub mod silence;
pub mod slots;
mod standing;
pub mod text;
pub mod time;
mod timer;

use backlog::{Backlog, Budget};
pub use census::{Census, Waiting};
use change::{Changes, Effect, ExecutionRow, Fact};
use fetch::Missing;
use input::{Answer, Input};
use job::LiveJob;
use keyed::{HashKey, Table};
use mint::Mint;
use node::LiveNode;
use pool::Queue;
use reservation::Reservations;
pub use restore::{Restore, RestoreError};
use silence::Silence;
pub use standing::{Ahead, Standing, Waits};
use time::{Moment, Now};
use timer::{Timer, Timers};

/// The longest interval between ticks while the orchestrator is awake ([`Scheduler::next_wake`]).
pub const LONGEST_SLEEP: Duration = Duration::from_millis(500);

#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// A node that is silent for this long loses its lease; see [`Scheduler::lease`].
    pub lease: Duration,
    /// New nodes join without an operator's approval.
    pub approve_new_nodes: bool,
    /// How long a drain waits for batch and ops work before it stops and moves that work.
    pub drain_deadline: Duration,
    /// A node that has been disconnected for this long is forgotten.
    pub node_retention: Duration,
    /// A node is reserved for work that has waited for room for this long; none for never.
    pub starvation: Option<Duration>,
}

/// The state of everything that is live.
pub struct Scheduler {
    settings: Settings,
    mint: Mint,
    nodes: BTreeMap<NodeId, LiveNode>,
    /// Boxed, because half of a large table may be empty.
    jobs: Table<Box<LiveJob>>,
    executions: Table<Box<ExecutionRow>>,
    queue: Queue,
    /// Live daemon jobs; a node that joins may have to run them.
    daemons: BTreeSet<JobId>,
    timers: Timers,
    silence: Silence,
    /// No offer is taken back before this moment: for a while before it, no answer could arrive.
    answers_due: Moment,
    missing: Missing,
    reservations: Reservations,
    backlog: Backlog,
    last_seq: u64,
    /// The latest moment that an input carried.
    clock: Moment,
    /// Nodes whose record changed since [`Scheduler::take_touched_nodes`].
    touched: BTreeSet<NodeId>,
    /// Nodes heard from since [`Scheduler::take_heard_nodes`].
    heard_from: BTreeSet<NodeId>,
    /// Incremented whenever a node joins, leaves, or changes its properties.
    fleet_changes: u64,
}

/// The changes and effects of one or several inputs.
#[derive(Debug, Default)]
pub struct Output {
    pub changes: Changes,
    pub effects: Vec<Effect>,
    pub facts: Vec<Fact>,
}

/// The handling of one input.
struct Turn<'a> {
    now: Moment,
    /// For display only: an event shows the later of this and the job's last event.
    wall: Timestamp,
    out: &'a mut Output,
    /// What it may still do.
    budget: Budget,
}

// === impl Settings ===

impl Default for Settings {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(10),
            approve_new_nodes: true,
            drain_deadline: Duration::from_secs(3600),
            node_retention: Duration::from_secs(30 * 24 * 3600),
            starvation: Some(Duration::from_secs(60)),
        }
    }
}

// === impl Scheduler ===

impl Scheduler {
    pub fn new(settings: Settings, mut mint: Mint) -> Self {
        let key = HashKey::draw(&mut mint);
        Self {
            settings,
            mint,
            nodes: BTreeMap::new(),
            jobs: Table::with_hasher(key),
            executions: Table::with_hasher(key),
            queue: Queue::new(key),
            daemons: BTreeSet::new(),
            timers: Timers::new(key),
            silence: Silence::default(),
            answers_due: Moment::ZERO,
            reservations: Reservations::default(),
            missing: Missing::default(),
            backlog: Backlog::default(),
            last_seq: 0,
            clock: Moment::ZERO,
            touched: BTreeSet::new(),
            heard_from: BTreeSet::new(),
            fleet_changes: 0,
        }
    }

    /// Handles one input: decides, and returns what to store and send.
    pub fn handle(&mut self, now: Now, input: Input, out: &mut Output) -> Answer {
        let Now { moment, wall } = now;
        let now = moment.max(self.clock);
        self.clock = now;
        let turn = &mut Turn { now, wall, out, budget: Budget::of_a_turn() };
        let answer = match input {
            Input::Submit(submit) => self.submit(turn, *submit),
            Input::Stop { job, reason } => self.stop(turn, job, &reason),
            Input::Join { node, request } => self.join(turn, node, *request),
            Input::Heartbeat { node, heartbeat } => self.heartbeat(turn, node, &heartbeat),
            Input::Heard(arrivals) => {
                self.heard(turn, arrivals);
                Answer::Done
            }
            Input::WasDeaf(for_how_long) => {
                self.was_deaf(now, for_how_long);
                Answer::Done
            }
            Input::OpenAssignments { node, session } => self.open_assignments(node, session),
            Input::Reports { node, session, reports } => self.reports(turn, node, session, reports),
            Input::Unreadable { execution, reason } => {
                self.unreadable(turn, execution, &reason);
                Answer::Done
            }
            Input::NodeAction { node, action, message } => {
                self.node_action(turn, node, action, message)
            }
            Input::LabelNode { node, labels } => self.label_node(turn, node, &labels),
            Input::Provided { namespace } => {
                self.provided(&namespace, now);
                Answer::Done
            }
            Input::ForgetNode { node, now } => self.forget_node(turn, node, now),
            Input::Tick => {
                self.fire_timers(turn);
                self.work_off_backlog(turn);
                Answer::Done
            }
        };
        self.follow_queues(turn);
        self.queue.drop_surplus_pools();
        answer
    }

    fn fire_timers(&mut self, turn: &mut Turn<'_>) {
        while !turn.budget.is_spent()
            && let Some(timer) = self.timers.pop(turn.now)
        {
            turn.budget.spend();
            match timer {
                Timer::GiveUp(node) => self.give_up_due(turn, node),
                Timer::MassSilence => self.mass_silence_due(turn.now),
                Timer::Lease(node) => self.lease_timer_fired(turn, node),
                Timer::Retry(job, index) => self.retry_due(turn, job, index),
                Timer::Exclusion(job, index) => self.exclusion_ended(turn, job, index),
                Timer::FetchDelay(job) => self.fetch_delay_ended(turn, job),
                Timer::Offer(execution) => self.offer_timed_out(turn, execution),
                Timer::BackOff(node) => self.back_off_ended(turn, node),
                Timer::Probe(node) => self.probe_ran(turn, node),
                Timer::QueueTimeout(job) => self.queue_timed_out(turn, job),
                Timer::TotalTimeout(job) => self.total_timed_out(turn, job),
                Timer::DrainDeadline(node) => self.move_work(turn, node),
                Timer::Retention(node) => self.retention_timer_fired(turn, node),
                Timer::Starvation(waiter) => self.starvation_due(turn, waiter),
                Timer::Reserve => self.reserve_due(turn),
                Timer::Reservation(node) => self.reservation_due(turn, node),
            }
        }
    }

    /// When the next [`Input::Tick`] is due.
    pub fn next_wake(&self, now: Moment) -> Moment {
        let latest = now + LONGEST_SLEEP;
        if !self.backlog.is_empty() {
            return now;
        }
        self.timers.next().map_or(latest, |due| due.min(latest))
    }

    /// Nodes that changed since the last call, in their current state; `None` for a forgotten one.
    pub fn take_touched_nodes(&mut self) -> Vec<(NodeId, Option<Node>)> {
        core::mem::take(&mut self.touched)
            .into_iter()
            .map(|id| (id, self.nodes.get(&id).map(LiveNode::wire)))
            .collect()
    }

    /// Nodes whose heartbeats arrived since the last call, with the time of the latest one.
    pub fn take_heard_nodes(&mut self) -> Vec<(NodeId, Timestamp)> {
        core::mem::take(&mut self.heard_from)
            .into_iter()
            .filter_map(|id| Some((id, self.nodes.get(&id)?.row.last_heartbeat)))
            .collect()
    }

    /// Increments whenever a node joins, leaves, or changes its properties.
    pub fn fleet_changes(&self) -> u64 {
        self.fleet_changes
    }

    pub fn live_jobs(&self) -> usize {
        self.jobs.len()
    }

    pub fn live_executions(&self) -> usize {
        self.executions.len()
    }

    fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }
}
