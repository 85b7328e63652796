//! Sessions, leases and what operators do to nodes.

use std::sync::Arc;

use api_types::job::JobType;
use api_types::node::{Connection, Eligibility, Membership, NodeAction};
use api_types::protocol::{Heartbeat, Report, SessionRequest};
use api_types::{ExecutionId, NodeId, Timestamp};

use super::change::{Effect, NodeRow};
use super::execution::End;
use super::input::{Answer, Refusal, acknowledge};
use super::job::LiveJob;
use super::node::LiveNode;
use super::text::Text;
use super::timer::Timer;
use super::{Engine, Turn};

// === impl Engine: sessions ===

impl Engine {
    pub(super) fn join(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        request: SessionRequest,
    ) -> Answer {
        let lease_until = turn.now + self.settings.lease;
        let membership = if self.settings.approve_new_nodes {
            Membership::Approved
        } else {
            Membership::Pending
        };
        let record = Arc::new(request);
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
                record: Arc::clone(&record),
            };
            LiveNode::new(row, lease_until)
        });
        if node.row.membership == Membership::Rejected {
            return Answer::Refused(Refusal::NodeRejected(id));
        }
        node.row.session += 1;
        node.row.connection = Connection::Connected;
        node.row.last_heartbeat = turn.now;
        node.lease_until = lease_until;
        node.replace_record(record);
        let (session, membership) = (node.row.session, node.row.membership);
        self.timers.set(lease_until, Timer::Lease(id));
        turn.out.effects.push(Effect::CloseStream { node: id });
        self.node_changed(turn, id);
        Answer::Joined { session, membership }
    }

    pub(super) fn heartbeat(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        heartbeat: &Heartbeat,
    ) -> Answer {
        if let Some(refusal) = self.check_session(id, heartbeat.session) {
            return Answer::Refused(refusal);
        }
        let lease = self.settings.lease;
        if let Some(node) = self.nodes.get_mut(&id) {
            node.row.last_heartbeat = turn.now;
            node.lease_until = turn.now + lease;
            self.touched.insert(id);
        }
        Answer::Renewed
    }

    pub(super) fn open_assignments(&mut self, id: NodeId, session: u64) -> Answer {
        match self.check_session(id, session) {
            Some(refusal) => Answer::Refused(refusal),
            None => Answer::Assignments(self.assignments(id)),
        }
    }

    pub(super) fn reports(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        session: u64,
        reports: Vec<Report>,
    ) -> Answer {
        if let Some(refusal) = self.check_session(id, session) {
            return Answer::Refused(refusal);
        }
        let acknowledged = reports.iter().map(acknowledge).collect();
        for report in reports {
            self.report(turn, id, report);
        }
        Answer::Acknowledged(acknowledged)
    }

    fn check_session(&self, id: NodeId, came: u64) -> Option<Refusal> {
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

    /// Every lease runs anew: the orchestrator itself was away, and nobody could renew.
    pub(super) fn renew_all_leases(&mut self, now: Timestamp) {
        let lease_until = now + self.settings.lease;
        for node in self.nodes.values_mut() {
            node.lease_until = node.lease_until.max(lease_until);
        }
    }

    pub(super) fn lease_timer_fired(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        if node.row.connection == Connection::Disconnected {
            return;
        }
        if node.lease_until > turn.now {
            self.timers.set(node.lease_until, Timer::Lease(id));
            return;
        }
        // The lease ran anew with its last heartbeat, or when the orchestrator came back.
        let silent = (self.settings.lease + turn.now.since(node.lease_until)).as_secs();
        let why = format!("its node was lost: no heartbeat for {silent} s");
        self.disconnect(turn, id, &why);
    }

    /// The node is not believed to be there: its executions end as lost and are replaced.
    fn disconnect(&mut self, turn: &mut Turn<'_>, id: NodeId, why: &str) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.row.connection = Connection::Disconnected;
        self.timers.set(turn.now + self.settings.node_retention, Timer::Retention(id));
        turn.out.effects.push(Effect::CloseStream { node: id });
        self.node_changed(turn, id);
        self.lose_executions(turn, id, why);
        self.give_up_pinned(turn, id, why);
    }

    /// Slots of ops jobs that wait for this node would wait for ever; daemons do wait.
    fn give_up_pinned(&mut self, turn: &mut Turn<'_>, id: NodeId, why: &str) {
        let Some(node) = self.nodes.get(&id) else { return };
        for (rank, index) in node.pinned.clone() {
            let ops = |job: &LiveJob| job.plan.job_type == JobType::Ops;
            if self.jobs.get(&rank.job).is_some_and(|job| ops(job)) {
                self.abandon_ops(turn, rank.job, index, why);
            }
        }
    }

    pub(super) fn retention_timer_fired(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else { return };
        let away = turn.now.since(node.row.last_heartbeat) >= self.settings.node_retention;
        if node.row.connection == Connection::Disconnected && away {
            self.forget_node(turn, id);
        }
    }

    fn lose_executions(&mut self, turn: &mut Turn<'_>, id: NodeId, why: &str) {
        for execution in self.executions_on(id) {
            self.end(turn, execution, End::Lost, Text::from(why.to_owned()));
        }
    }

    fn executions_on(&self, id: NodeId) -> Vec<ExecutionId> {
        self.nodes.get(&id).map_or_else(Vec::new, |node| node.executions.iter().copied().collect())
    }

    /// Stores the node as it is now, and brings placement up to date with it.
    fn node_changed(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.queue.reclassify(node);
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, Some(node.row.clone()));
        if node.takes_work() {
            self.cover_by_daemons(turn, id);
            self.fill_node(turn, id);
        }
    }
}

// === impl Engine: operators ===

impl Engine {
    pub(super) fn node_action(
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
        node.row.drain_deadline = None;
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
                let why = with_reason("its node was rejected by an operator", &message);
                self.disconnect(turn, id, &why);
            }
            NodeAction::Drain => {
                if let Some(deadline) = deadline {
                    self.timers.set(deadline, Timer::DrainDeadline(id));
                }
                self.move_work(turn, id, &with_reason("its node is drained", &message), |kind| {
                    !kind.is_finite()
                });
            }
        }
        Answer::Done
    }

    pub(super) fn drain_timer_fired(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let due = self.nodes.get(&id).and_then(|node| node.row.drain_deadline);
        if due.is_some_and(|due| due <= turn.now) {
            self.move_work(turn, id, "its node is drained, and the deadline has passed", |_| true);
        }
    }

    /// Stops what runs on the node and is of these types; the slots go elsewhere when it is gone.
    fn move_work(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        why: &str,
        moves: impl Fn(JobType) -> bool,
    ) {
        let why = Text::from(why.to_owned());
        for execution in self.executions_on(id) {
            let job = self.executions.get(&execution).and_then(|row| self.jobs.get(&row.job));
            if job.is_some_and(|job| moves(job.plan.job_type)) {
                self.stop_execution(turn, execution, &why);
            }
        }
    }

    pub(super) fn forget_node(&mut self, turn: &mut Turn<'_>, id: NodeId) -> Answer {
        let Some(node) = self.nodes.get(&id) else {
            return Answer::Refused(Refusal::NoSuchNode(id));
        };
        if node.row.connection == Connection::Connected {
            return Answer::Refused(Refusal::NodeConnected(id));
        }
        for (rank, index) in node.pinned.clone() {
            if let Some(job) = self.jobs.get_mut(&rank.job) {
                job.take_pending(index, &mut turn.out.changes);
                job.covered.remove(&id);
            }
            self.refresh_job(turn, rank.job);
        }
        self.nodes.remove(&id);
        self.touched.insert(id);
        self.fleet_changes += 1;
        turn.out.changes.nodes.insert(id, None);
        Answer::Done
    }
}

fn with_reason(what: &str, reason: &str) -> String {
    match reason.trim() {
        "" => what.to_owned(),
        reason => format!("{what}: {reason}"),
    }
}
