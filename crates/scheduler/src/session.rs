//! Node sessions, leases, and operator actions on nodes.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::DesiredState;
use api_types::job::JobType;
use api_types::node::{Connection, Eligibility, Membership, NodeAction, set_operator_labels};
use api_types::protocol::{Heartbeat, Report, SessionRequest};
use api_types::{ExecutionId, NodeId, Timestamp};

use crate::change::{Effect, Grant, NodeRow};
use crate::health::Health;
use crate::input::{Answer, Refusal, acknowledge};
use crate::node::LiveNode;
use crate::node_event::History;
use crate::silence::Heard;
use crate::text::Text;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// Why an operator's action ends the work of a node.
pub(crate) const FORGOTTEN: Text = Text::Constant("its node was forgotten by an operator");
pub(crate) const REJECTED: &str = "its node was rejected by an operator";
const DRAINED: &str = "its node is drained";

// === impl Scheduler: sessions ===

impl Scheduler {
    pub(crate) fn join(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        request: SessionRequest,
    ) -> Answer {
        let membership = if self.settings.approve_new_nodes {
            Membership::Approved
        } else {
            Membership::Pending
        };
        let (record, lease) = (Arc::new(request), self.lease());
        let node = self.nodes.entry(id).or_insert_with(|| {
            let row = NodeRow {
                id,
                session: 0,
                membership,
                connection: Connection::Disconnected,
                eligibility: Eligibility::Eligible,
                message: String::new(),
                drain_deadline: None,
                last_heartbeat: Timestamp::ZERO,
                silent_since: None,
                grant: Grant::default(),
                joined_at: turn.now,
                is_forgotten: false,
                health: Health::default(),
                history: History::default(),
                record: Arc::clone(&record),
            };
            LiveNode::new(row, turn.now)
        });
        if node.row.membership == Membership::Rejected {
            return Answer::Refused(Refusal::NodeRejected(id));
        }
        node.row.session += 1;
        node.row.connection = Connection::Connected;
        node.row.last_heartbeat = turn.wall;
        node.row.grant = Grant { lease, kept: lease };
        node.answered = lease;
        node.stalled_since = None;
        node.replace_record(record);
        let (session, membership) = (node.row.session, node.row.membership);
        self.renew(id, turn.now, lease);
        self.is_back(turn, id);
        turn.out.effects.push(Effect::CloseStream { node: id });
        self.node_changed(turn, id);
        Answer::Joined { session, membership, lease }
    }

    pub(crate) fn heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        heartbeat: &Heartbeat,
    ) -> Answer {
        if let Some(refusal) = self.check_session(id, heartbeat.session) {
            return Answer::Refused(refusal);
        }
        let stalled = Duration::from_millis(heartbeat.stalled_millis);
        // The answer leaves once the grant is stored.
        let granted = self.lease();
        let (session, kept) = (heartbeat.session, heartbeat.lease());
        self.beat(turn, &Heard { node: id, session, at: turn.now, stalled, granted, kept });
        Answer::Renewed { lease: granted }
    }

    pub(crate) fn open_assignments(&mut self, id: NodeId, session: u64) -> Answer {
        match self.check_session(id, session) {
            // An empty desired state makes the rejected agent stop everything that it runs, also
            // an agent that has restarted and got no session.
            Some(Refusal::NodeRejected(_)) => Answer::Assignments(Vec::new()),
            Some(refusal) => Answer::Refused(refusal),
            None => Answer::Assignments(self.assignments(id)),
        }
    }

    pub(crate) fn reports(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        session: u64,
        reports: Vec<Report>,
    ) -> Answer {
        let acknowledged = reports.iter().map(acknowledge).collect();
        match self.check_session(id, session) {
            None => {}
            // All its executions were given up, so its reports change nothing.
            Some(Refusal::NodeRejected(_)) => return Answer::Acknowledged(acknowledged),
            Some(refusal) => return Answer::Refused(refusal),
        }
        for report in reports {
            self.report(turn, id, report);
        }
        Answer::Acknowledged(acknowledged)
    }

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

    pub(crate) fn retention_timer_fired(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        if node.row.connection == Connection::Connected {
            return;
        }
        if let Answer::Refused(_) = self.forget_node(turn, id, false) {
            // The node may still be running work: retry after another retention period.
            self.timers.set(turn.now + self.settings.node_retention, Timer::Retention(id));
        }
    }

    pub(crate) fn executions_on(&self, id: NodeId) -> Vec<ExecutionId> {
        self.nodes.get(&id).map_or_else(Vec::new, |node| node.executions.iter().copied().collect())
    }

    /// Stores the node's current record and updates its pools.
    pub(crate) fn store_node(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        self.note_node(turn, id);
        self.follow_node(id);
        let Some(node) = self.nodes.get(&id) else { return };
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, Some(node.row.clone()));
        self.review_reservation(turn, id);
    }

    /// Stores the node's current record and re-evaluates placement for it.
    pub(crate) fn node_changed(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        self.store_node(turn, id);
        self.take_up_work(turn, id);
    }

    /// Places what the node has room for, and the daemons that it lacks.
    pub(crate) fn take_up_work(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        if self.nodes.get(&id).is_some_and(LiveNode::takes_work) {
            let covered = self.cover_by_daemons(turn, id);
            self.fill_node(turn, id);
            for job in covered {
                self.refresh_job(turn, job);
            }
        }
    }
}

// === impl Scheduler: operators ===

impl Scheduler {
    /// What runs there stays, whatever its constraints.
    pub(crate) fn label_node(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        labels: &BTreeMap<String, String>,
    ) -> Answer {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Answer::Refused(Refusal::NoSuchNode(id));
        };
        let mut record = (*node.row.record).clone();
        set_operator_labels(&mut record.labels, labels);
        node.replace_record(Arc::new(record));
        self.node_changed(turn, id);
        Answer::Done
    }

    pub(crate) fn node_action(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        action: NodeAction,
        message: String,
    ) -> Answer {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Answer::Refused(Refusal::NoSuchNode(id));
        };
        node.row.message.clone_from(&message);
        match action {
            NodeAction::Approve | NodeAction::Reject => {}
            NodeAction::Cordon | NodeAction::Uncordon | NodeAction::Drain => {
                node.row.drain_deadline = None;
                self.timers.cancel(Timer::DrainDeadline(id));
            }
        }
        match action {
            NodeAction::Approve => node.row.membership = Membership::Approved,
            NodeAction::Reject => node.row.membership = Membership::Rejected,
            NodeAction::Cordon => node.row.eligibility = Eligibility::Cordoned,
            NodeAction::Uncordon => node.row.eligibility = Eligibility::Eligible,
            NodeAction::Drain => {
                node.row.eligibility = Eligibility::Draining;
                node.row.drain_deadline = Some(turn.now + self.settings.drain_deadline);
            }
        }
        let deadline = node.row.drain_deadline;
        self.node_changed(turn, id);
        match action {
            NodeAction::Approve | NodeAction::Cordon | NodeAction::Uncordon => {}
            NodeAction::Reject => {
                self.reject(turn, id, with_reason(REJECTED, &message).into());
            }
            NodeAction::Drain => {
                if let Some(deadline) = deadline {
                    self.timers.set(deadline, Timer::DrainDeadline(id));
                }
                self.move_work(turn, id);
            }
        }
        Answer::Done
    }

    /// Stops what a draining node runs, so that its slots are placed elsewhere: services and daemons
    /// at once, the rest at the deadline.
    pub(crate) fn move_work(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let Some(deadline) = node.row.drain_deadline else { return };
        let is_late = deadline <= turn.now;
        let why = Text::from(match is_late {
            true => format!("{DRAINED}, and the deadline has passed"),
            false => with_reason(DRAINED, &node.row.message),
        });
        for execution in self.executions_on(id) {
            let Some(row) = self.executions.get(&execution) else { continue };
            let job = self.jobs.get(&row.job);
            let moves = job.is_some_and(|job| is_late || !job.plan.job_type.is_finite());
            if !moves || row.desired == DesiredState::Stopped {
                continue;
            }
            if turn.budget.is_spent() {
                self.backlog.drains.insert(id);
                return;
            }
            turn.budget.spend();
            self.stop_execution(turn, execution, &why);
        }
    }

    /// Gives up the node's work without waiting for it, whether or not the node is silent.
    fn reject(&mut self, turn: &mut Turn<'_>, id: NodeId, why: Text) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.row.connection == Connection::Connected {
            node.row.connection = Connection::Disconnected;
            node.row.silent_since = Some(node.heard_at);
            let since = node.heard_at;
            self.restore_silence(id, since);
            self.timers.cancel(Timer::Lease(id));
            self.timers.set(turn.now + self.settings.node_retention, Timer::Retention(id));
        }
        turn.out.effects.push(Effect::CloseStream { node: id });
        self.node_changed(turn, id);
        self.abandon_node(turn, id, why);
    }

    /// Drops the slots that only this node could have run.
    fn drop_pinned(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let ready = node.pinned.iter().map(|(rank, index)| (rank.job, *index));
        let slots: Vec<_> = ready.chain(node.delayed.iter().copied()).collect();
        for (job_id, index) in slots {
            let Some(job) = self.jobs.get_mut(&job_id) else { continue };
            if job.extras.pending.get(index).is_none_or(|slot| slot.pinned != Some(id)) {
                continue;
            }
            self.timers.cancel(Timer::Retry(job_id, index));
            match job.plan.job_type {
                JobType::Ops => self.abandon_ops(turn, job_id, index, "its node was forgotten"),
                JobType::Batch | JobType::Service | JobType::Daemon => {
                    job.take_pending(index, &mut turn.out.changes);
                    if let Some(extra) = job.extras.existing() {
                        extra.covered.remove(&id);
                    }
                    self.refresh_job(turn, job_id);
                }
            }
        }
    }

    pub(crate) fn forget_node(&mut self, turn: &mut Turn<'_>, id: NodeId, now: bool) -> Answer {
        let Some(node) = self.nodes.get(&id) else {
            return Answer::Refused(Refusal::NoSuchNode(id));
        };
        if node.row.connection == Connection::Connected {
            return Answer::Refused(Refusal::NodeConnected(id));
        }
        let executions = node.executions.len();
        if executions > 0 && !now {
            return Answer::Refused(Refusal::NodeBusy { node: id, executions });
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.row.is_forgotten = true;
            turn.out.changes.nodes.insert(id, Some(node.row.clone()));
        }
        self.abandon_node(turn, id, FORGOTTEN);
        Answer::Done
    }

    /// Removes a node that is to be forgotten, once nothing is left on it.
    pub(crate) fn remove_if_forgotten(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        if !node.row.is_forgotten || !node.executions.is_empty() {
            return;
        }
        self.drop_pinned(turn, id);
        // A daemon covers the node again when it rejoins.
        for job in &self.daemons {
            let job = self.jobs.get_mut(job);
            if let Some(extra) = job.and_then(|job| job.extras.existing()) {
                extra.covered.remove(&id);
            }
        }
        self.note_forgotten(turn, id);
        self.forget_silence(id);
        if let Some(node) = self.nodes.remove(&id) {
            self.queue.forget(&node);
        }
        self.reservations.repinned.push(id);
        for timer in [
            Timer::GiveUp(id),
            Timer::Lease(id),
            Timer::DrainDeadline(id),
            Timer::Retention(id),
            Timer::BackOff(id),
            Timer::Probe(id),
        ] {
            self.timers.cancel(timer);
        }
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, None);
    }
}

pub(crate) fn with_reason(what: &str, reason: &str) -> String {
    match reason.trim() {
        "" => what.to_owned(),
        reason => format!("{what}: {reason}"),
    }
}
