//! Silent nodes: when their lease ends, and how long the scheduler waits for their work.
//!
//! Only silence ends a lease, measured by the arrival times of heartbeats. A node without a lease
//! may still be running its work, so that work is given up only after the node's *patience*. A
//! wrong decision throws a run away, so patience grows with the work at stake.

use alloc::borrow::ToOwned;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::node::Connection;
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::change::{Effect, Fact, Grant};
use crate::ending::{Cause, End};
use crate::notice::SilentNode;
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// The lease grows with the number of nodes, so that all heartbeats together, three per lease, stay
/// below a thousand per second.
const MILLIS_PER_NODE: u64 = 3;

/// The lease grows in steps of this many seconds, because each change is stored with every node.
const LEASE_STEP: u64 = 5;

/// An agent that has been busy with one operation for this long hangs, and gets no new work.
const STALLED: Duration = Duration::from_secs(5);

/// A heartbeat, as recorded on arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heard {
    pub node: NodeId,
    pub session: u64,
    pub at: Moment,
    /// How long the agent's current operation has been running.
    pub stalled: Duration,
    /// The lease in the response to this heartbeat.
    pub granted: Duration,
    /// The lease that the agent keeps to, if it says so.
    pub kept: Option<Duration>,
}

/// The lease that a node holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    pub session: u64,
    pub lease: Duration,
}

/// The silent nodes, and whether the silence is attributed to the orchestrator itself.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Ordered by when each node was last heard from.
    pub(crate) nodes: BTreeSet<(Moment, NodeId)>,
    pub(crate) mass: Mass,
    /// Nothing is given up before this moment: until one lease earlier, no heartbeat could arrive.
    pub(crate) not_before: Moment,
    /// Most nodes reconnected recently; until this moment, the scheduler expects the others to
    /// follow.
    pub(crate) others_may_follow_until: Moment,
}

/// Whether most nodes have fallen silent at once.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mass {
    #[default]
    None,
    /// Nothing is given up before this moment.
    Holding(Moment),
    /// The mass silence lasted too long to keep waiting.
    Spent,
}

// === impl Mass ===

impl Mass {
    /// Until when nothing is given up because most nodes are silent.
    pub(crate) fn held_until(self) -> Option<Moment> {
        match self {
            Self::Holding(until) => Some(until),
            Self::None | Self::Spent => None,
        }
    }
}

// === impl Scheduler: leases ===

impl Scheduler {
    /// How long a node may be silent before its lease ends; it sends three heartbeats per lease.
    pub fn lease(&self) -> Duration {
        let needed = Duration::from_millis(MILLIS_PER_NODE.saturating_mul(self.nodes.len() as u64));
        if needed <= self.settings.lease {
            return self.settings.lease;
        }
        Duration::from_secs((needed.as_secs() + 1).next_multiple_of(LEASE_STEP))
    }

    /// Whether most nodes are silent, so that nothing is given up for now.
    pub fn is_mass_silence(&self) -> bool {
        self.silence.mass.held_until().is_some()
    }

    /// Handles the heartbeats that arrived since the last call, ahead of everything queued.
    pub(crate) fn heard(&mut self, turn: &mut Turn<'_>, arrivals: Vec<Heard>) {
        for heard in arrivals {
            if self.check_session(heard.node, heard.session).is_none() {
                self.beat(turn, &heard);
            }
        }
    }

    /// Handles a heartbeat of the node's session that arrived at this moment.
    pub(crate) fn beat(&mut self, turn: &mut Turn<'_>, heard: &Heard) {
        let Heard { node: id, at, stalled, granted, kept, .. } = *heard;
        let lease = self.lease();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        // An agent that does not say what it keeps to has read the answer to its last heartbeat, as
        // a rule. One that says so keeps to no more than it was ever told.
        let answered = core::mem::replace(&mut node.answered, granted);
        let kept = kept.map_or(answered, |kept| kept.min(node.row.grant.kept.max(answered)));
        let grant = Grant { lease, kept };
        let before = core::mem::replace(&mut node.row.grant, grant);
        self.renew(id, at, granted);
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if grant.kept < before.kept {
            node.lease_until = turn.now + lease.max(granted).max(grant.kept);
            self.timers.set(node.lease_until, Timer::Lease(id));
        }
        // The listener noted it a while ago: the lease counts from then, and so does what is shown.
        let ago = i64::try_from(turn.now.since(at).as_nanos()).unwrap_or(i64::MAX);
        let arrived = Timestamp(turn.wall.0.saturating_sub(ago));
        node.row.last_heartbeat = arrived;
        self.heard_from.insert(id);
        let is_stalled = stalled >= STALLED;
        if is_stalled != node.stalled_since.is_some() {
            node.stalled_since = is_stalled.then(|| arrived - stalled);
            self.node_changed(turn, id);
        } else if grant != before {
            self.store_node(turn, id);
        }
    }

    /// The lease that the node holds.
    pub fn held_by(&self, id: NodeId) -> Option<Held> {
        let row = &self.nodes.get(&id)?.row;
        let held = Held { session: row.session, lease: row.grant.lease };
        self.check_session(id, held.session).is_none().then_some(held)
    }

    /// Renews the lease of a connected node as of this moment, when its agent was granted this.
    ///
    /// A longer lease counts at once, a shorter one once its agent keeps to it.
    pub(crate) fn renew(&mut self, id: NodeId, at: Moment, granted: Duration) {
        let lease = self.lease();
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let until = at + lease.max(granted).max(node.row.grant.kept);
        let overdue = node.row.grant.kept.max(node.row.grant.lease) / 2;
        if node.heard_at > Moment::ZERO && at.since(node.heard_at) > overdue {
            node.returned_at = at;
        }
        node.heard_at = node.heard_at.max(at);
        node.lease_until = node.lease_until.max(until);
        // Moved each time: a timer left behind would wake the orchestrator once per lease and node.
        self.timers.set(node.lease_until, Timer::Lease(id));
    }

    /// Extends every lease by a period in which the orchestrator could not receive heartbeats (a
    /// stalled disk, a stopped process, a suspended machine), so that no node is penalised for it.
    pub(crate) fn was_deaf(&mut self, now: Moment, for_how_long: Duration) {
        for node in self.nodes.values_mut() {
            node.lease_until = node.lease_until + for_how_long;
        }
        if now.before(for_how_long) <= self.silence.not_before {
            // The lease that is waited for takes longer by this. A new one for each of many pauses
            // would hold the work of dead nodes for ever.
            self.silence.not_before = self.silence.not_before + for_how_long;
        } else {
            self.hold_back(now);
        }
        self.held_up(now, for_how_long);
    }

    /// Postpones giving up work until nodes have had one full lease in which to be heard: the longest
    /// that one of the silent ones was told, because it keeps to that.
    pub(crate) fn hold_back(&mut self, now: Moment) {
        let silent = self.silence.nodes.iter().filter_map(|(_, id)| self.nodes.get(id));
        let longest = silent.map(|node| node.row.grant.kept.max(node.row.grant.lease)).max();
        self.silence.not_before = now + longest.unwrap_or_default().max(self.lease());
    }

    pub(crate) fn lease_timer_fired(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        match node.row.connection {
            Connection::Disconnected => {}
            Connection::Connected if node.lease_until > turn.now => {
                self.timers.set(node.lease_until, Timer::Lease(id));
            }
            Connection::Connected => self.fall_silent(turn, id),
        }
    }

    /// Connected => Disconnected. The node gets no new work and keeps its executions for the time
    /// being.
    fn fall_silent(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let heard_at = node.heard_at;
        node.row.connection = Connection::Disconnected;
        node.row.silent_since = Some(heard_at);
        node.lost_lease_at = turn.now;
        if self.silence.nodes.is_empty() {
            // Every node was heard until now: what was assumed of an earlier silence is over.
            self.silence.mass = Mass::None;
        }
        self.silence.nodes.insert((heard_at, id));
        self.timers.set(turn.now + self.settings.node_retention, Timer::Retention(id));
        turn.out.effects.push(Effect::CloseStream { node: id });
        turn.out.facts.push(Fact::LeaseEnded);
        // First, because the node's history says whether it is one of many.
        self.detect_mass_silence(turn.now);
        self.node_changed(turn, id);
        for execution in self.executions_on(id) {
            self.part_from(turn, execution);
        }
        self.give_up_due(turn, id);
        self.tell_jobs_of_silence(turn, id);
    }

    /// Ends executions for which the scheduler does not wait on a silent node: those it has asked
    /// to stop, and offers, because the node cannot have started them.
    fn part_from(&mut self, turn: &mut Turn<'_>, id: ExecutionId) {
        let Some(row) = self.executions.get(&id) else { return };
        if row.desired == DesiredState::Stopped {
            let why = "it was asked to stop, and its node is silent";
            self.end(turn, id, End::Cancelled, Text::Constant(why));
        } else if row.compute <= ComputeState::AskForBid {
            let why = "its node fell silent before it answered the offer";
            self.end(turn, id, End::Disturbed(Cause::Lost), Text::Constant(why));
        }
    }

    /// The node reconnected, before or after its lease ended.
    pub(crate) fn is_back(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Some(since) = node.row.silent_since.take() else { return };
        node.abandoned = None;
        node.row.is_forgotten = false;
        self.silence.nodes.remove(&(since, id));
        self.timers.cancel(Timer::GiveUp(id));
        self.timers.cancel(Timer::Retention(id));
        self.detect_mass_silence(turn.now);
        for id_of_job in self.jobs_on(id) {
            let job = self.jobs.get_mut(&id_of_job);
            if let Some(extra) = job.and_then(|job| job.extras.existing()) {
                extra.silent.remove(&id);
            }
            self.refresh_job(turn, id_of_job);
        }
    }

    fn jobs_on(&self, id: NodeId) -> BTreeSet<JobId> {
        let rows = self.executions_on(id).into_iter().filter_map(|id| self.executions.get(&id));
        rows.map(|row| row.job).collect()
    }
}

// === impl Scheduler: reporting silence ===

impl Scheduler {
    /// Updates the messages of jobs on the node with since when it has been silent and what
    /// follows.
    pub(crate) fn tell_jobs_of_silence(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return;
        };
        let (now, wall) = (turn.now, turn.wall);
        let clock = |moment: Moment| {
            let then = wall + moment.since(now);
            (if moment < now { wall - now.since(moment) } else { then }).rfc3339_seconds()
        };
        let (node, silent_since) = (id.short(), clock(since));
        for (job, (executions, due)) in self.held_on(id, since) {
            let what = match executions {
                1 => "its execution there is".to_owned(),
                count => format!("its {count} executions there are"),
            };
            let text = match due {
                Some(due) => format!(
                    "node {node} has been silent since {silent_since}; unless it comes back, {what} \
                     replaced from {}",
                    clock(due)
                ),
                None => {
                    format!("node {node} has been silent since {silent_since}; {what} waited for")
                }
            };
            let silent = SilentNode { executions, text: text.into() };
            if let Some(job) = self.jobs.get_mut(&job) {
                job.extras.to_mut().silent.insert(id, silent);
            }
            self.refresh_job(turn, job);
        }
    }

    /// How many executions each job has on a silent node, and when the first of them is given up.
    fn held_on(&self, id: NodeId, since: Moment) -> BTreeMap<JobId, (u32, Option<Moment>)> {
        let mut found = BTreeMap::new();
        for execution in self.executions_on(id) {
            let Some(row) = self.executions.get(&execution) else { continue };
            let due = self.execution_due(execution, since);
            let (count, first) = found.entry(row.job).or_insert((0, due));
            *count += 1;
            *first = (*first).into_iter().chain(due).min();
        }
        found
    }

    /// Restarts leases after a restart, and gives silent nodes one lease to reconnect.
    pub(crate) fn restore_leases(&mut self, now: Moment) {
        self.hold_back(now);
        self.await_answers(now);
        self.restore_mass_silence(now);
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        for id in ids {
            if self.nodes[&id].row.connection == Connection::Connected {
                self.renew(id, now, self.nodes[&id].row.grant.lease);
                continue;
            }
            let since = self.nodes[&id].row.silent_since.unwrap_or(now);
            for (job, (executions, _)) in self.held_on(id, since) {
                let Some(job) = self.jobs.get_mut(&job) else { continue };
                // Whatever it says, the next tick tells it anew.
                let text = job.row.message.clone();
                job.extras.to_mut().silent.insert(id, SilentNode { executions, text });
                job.extras.to_mut().shown = job.notice();
            }
            self.backlog.silences.insert(id);
            self.arm_give_up(id);
        }
    }
}
