//! Patience: how long the scheduler waits for work on a silent node before it replaces it.
//!
//! A wrong replacement throws away a run, so patience grows with the length of that run.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::DesiredState;
use api_types::job::JobType;
use api_types::{ExecutionId, JobId, NodeId};

use crate::change::ExecutionRow;
use crate::ending::{Cause, End};
use crate::job::LiveJob;
use crate::mass_silence::MASS_HOLD;
use crate::silence::Mass;
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// The patience for a batch execution is the time since its node accepted it, divided by this: a
/// run of one hour is worth a wait of 72 seconds.
const BATCH_PATIENCE_PER_RUN: u32 = 50;

/// The longest patience for batch work unless its job sets another, and the patience for ops work:
/// an ops job is bound to its nodes, so giving up can only fail it.
const LONGEST_PATIENCE: Duration = Duration::from_secs(600);

// === impl Scheduler: patience ===

impl Scheduler {
    /// When an execution on a silent node is given up; `None` if never.
    fn give_up_at(&self, row: &ExecutionRow, silent_since: Moment) -> Option<Moment> {
        let job = self.jobs.get(&row.job)?;
        let patience = self.patience(job, row.accepted_at, silent_since)?;
        Some(silent_since + patience)
    }

    fn patience(
        &self,
        job: &LiveJob,
        accepted_at: Option<Moment>,
        silent_since: Moment,
    ) -> Option<Duration> {
        let least = self.lease();
        match (job.plan.job_type, job.plan.lost_after()) {
            // No other node can run it.
            (JobType::Daemon, _) => None,
            (_, Some(wanted)) => Some(wanted.max(least)),
            (JobType::Service, None) => Some(least),
            (JobType::Ops, None) => Some(LONGEST_PATIENCE.max(least)),
            (JobType::Batch, None) => {
                let run = accepted_at.map_or(Duration::ZERO, |at| silent_since.since(at));
                Some((run / BATCH_PATIENCE_PER_RUN).min(LONGEST_PATIENCE).max(least))
            }
        }
    }

    /// Gives up executions whose patience has ended, and sets the timer for the next one.
    pub(crate) fn give_up_due(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return;
        };
        // The first to be given up after a restart or a pause may be one of many.
        if self.are_leases_renewed(turn.now) {
            self.detect_mass_silence(turn.now);
        }
        let abandoned = self.nodes.get(&id).and_then(|node| node.abandoned.clone());
        let cause = if abandoned.is_some() { Cause::Removed } else { Cause::Lost };
        let why = abandoned.unwrap_or_else(|| {
            let silent = turn.now.since(since).as_secs();
            format!("its node was lost: no heartbeat for {silent} s").into()
        });
        for execution in self.executions_on(id) {
            if turn.budget.is_spent() {
                break;
            }
            if self.execution_due(execution, since).is_some_and(|due| due <= turn.now) {
                let stopped = self.executions[&execution].desired == DesiredState::Stopped;
                let end = if stopped { End::Cancelled } else { End::Disturbed(cause) };
                self.end(turn, execution, end, why.clone());
            }
        }
        for (job, index) in self.ops_slots_on(id) {
            if self.slot_due(id, job, since).is_some_and(|due| due <= turn.now) {
                self.abandon_ops(turn, job, index, &why);
            }
        }
        match turn.budget.is_spent() {
            // The rest is due now; to find out what is due first would walk all of it.
            true => self.timers.set(turn.now, Timer::GiveUp(id)),
            false => self.arm_give_up(id),
        }
        self.remove_if_forgotten(turn, id);
    }

    /// Ends all executions of a node that is not connected as lost, without further waiting.
    pub(crate) fn abandon_node(&mut self, turn: &mut Turn<'_>, id: NodeId, why: Text) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.abandoned = Some(why);
        }
        self.give_up_due(turn, id);
    }

    /// When the execution is given up, unless a hold-back postpones it.
    pub(crate) fn execution_due(&self, id: ExecutionId, since: Moment) -> Option<Moment> {
        let row = self.executions.get(&id)?;
        if self.nodes.get(&row.node)?.abandoned.is_some() {
            return Some(Moment::ZERO);
        }
        let explicit = self.jobs.get(&row.job).is_some_and(|job| job.plan.lost_after().is_some());
        Some(self.held_back(self.give_up_at(row, since)?, explicit))
    }

    fn slot_due(&self, node: NodeId, id: JobId, since: Moment) -> Option<Moment> {
        let job = self.jobs.get(&id)?;
        if self.nodes.get(&node)?.abandoned.is_some() {
            return Some(Moment::ZERO);
        }
        let due = since + self.patience(job, None, since)?;
        Some(self.held_back(due, job.plan.lost_after().is_some()))
    }

    fn held_back(&self, due: Moment, explicit: bool) -> Moment {
        let due = due.max(self.silence.not_before);
        match self.silence.mass {
            Mass::Holding(until) if !explicit => due.max(until),
            // Nodes that come and go all the time hold nothing up for longer than a mass silence.
            Mass::None if !explicit => {
                due.max(self.silence.others_may_follow_until.min(due + MASS_HOLD))
            }
            Mass::Holding(_) | Mass::None | Mass::Spent => due,
        }
    }

    /// Slots of ops jobs that wait for this node.
    fn ops_slots_on(&self, id: NodeId) -> Vec<(JobId, u32)> {
        let Some(node) = self.nodes.get(&id) else { return Vec::new() };
        let slots = node.pinned.iter().map(|(rank, index)| (rank.job, *index));
        let is_ops = |job: &LiveJob| job.plan.job_type == JobType::Ops;
        slots.filter(|(job, _)| self.jobs.get(job).is_some_and(is_ops)).collect()
    }

    /// Whether the node has work to give up but no timer for it.
    pub(crate) fn waits_without_timer(&self, id: NodeId) -> bool {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return false;
        };
        let due = self.executions_on(id).into_iter();
        let mut due = due.filter_map(|execution| self.execution_due(execution, since));
        due.next().is_some() && !self.timers.is_set(Timer::GiveUp(id))
    }

    /// Sets the node's timer for the first of its executions that will be given up.
    pub(crate) fn arm_give_up(&mut self, id: NodeId) {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return self.timers.cancel(Timer::GiveUp(id));
        };
        let executions = self.executions_on(id).into_iter();
        let executions = executions.filter_map(|execution| self.execution_due(execution, since));
        let slots = self.ops_slots_on(id).into_iter();
        let slots = slots.filter_map(|(job, _)| self.slot_due(id, job, since));
        match executions.chain(slots).min() {
            Some(first) => self.timers.set(first, Timer::GiveUp(id)),
            None => self.timers.cancel(Timer::GiveUp(id)),
        }
    }

    /// Sets the timers of every silent node, after a hold-back on all of them has ended.
    pub(crate) fn arm_all(&mut self) {
        let nodes: Vec<_> = self.silence.nodes.iter().map(|(_, id)| *id).collect();
        for node in nodes {
            self.arm_give_up(node);
        }
    }

    /// Restores a node that was loaded from the store without its lease.
    pub(crate) fn restore_silence(&mut self, id: NodeId, since: Moment) {
        self.silence.nodes.insert((since, id));
    }

    pub(crate) fn forget_silence(&mut self, id: NodeId) {
        if let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) {
            self.silence.nodes.remove(&(since, id));
        }
    }
}
