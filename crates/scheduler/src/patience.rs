//! Patience: how long what runs on a silent node is waited for before it is replaced.
//!
//! What a wrong replacement costs is the run that is thrown away, so patience grows with it.

use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::execution::DesiredState;
use api_types::job::JobType;
use api_types::{ExecutionId, JobId, NodeId};

use crate::change::ExecutionRow;
use crate::ending::{Cause, End};
use crate::job::LiveJob;
use crate::silence::Mass;
use crate::text::Text;
use crate::time::Moment;
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// A batch execution is waited for as long as this part of the time since its node accepted it:
/// giving up a run of an hour is worth waiting for 72 seconds.
const BATCH_PATIENCE_PER_RUN: u32 = 50;

/// The longest that batch work is waited for unless its job says otherwise, and how long ops work
/// is: an ops job stays on its nodes, so that giving up can only fail it.
const LONGEST_PATIENCE: Duration = Duration::from_secs(600);

// === impl Scheduler: patience ===

impl Scheduler {
    /// When an execution on a silent node is given up; none where it is waited for for ever.
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
        match (job.plan.job_type, job.plan.lost_after) {
            // There is no other node for it.
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

    /// Gives up what has been waited for long enough, and sets the timer for the next.
    pub(crate) fn give_up_due(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return;
        };
        let silent = turn.now.since(since).as_secs();
        for execution in self.executions_on(id) {
            if self.execution_due(execution, since).is_some_and(|due| due <= turn.now) {
                let why = format!("its node was lost: no heartbeat for {silent} s");
                self.end(turn, execution, End::Disturbed(Cause::Lost), why.into());
            }
        }
        for (job, index) in self.ops_slots_on(id) {
            if self.slot_due(job, since).is_some_and(|due| due <= turn.now) {
                let why = format!("its node was lost: no heartbeat for {silent} s");
                self.abandon_ops(turn, job, index, &why);
            }
        }
        self.arm_give_up(id);
    }

    /// All that the node has ends as lost now: it is not waited for any longer.
    pub(crate) fn give_up_all(&mut self, turn: &mut Turn<'_>, id: NodeId, why: &Text) {
        self.give_up_where(turn, id, why, |_| true);
    }

    /// The same for work of some types.
    pub(crate) fn give_up_where(
        &mut self,
        turn: &mut Turn<'_>,
        id: NodeId,
        why: &Text,
        which: impl Fn(JobType) -> bool,
    ) {
        for execution in self.executions_on(id) {
            let job = self.executions.get(&execution).and_then(|row| self.jobs.get(&row.job));
            if !job.is_some_and(|job| which(job.plan.job_type)) {
                continue;
            }
            let stopped = self.executions[&execution].desired == DesiredState::Stopped;
            let end = if stopped { End::Cancelled } else { End::Disturbed(Cause::Lost) };
            self.end(turn, execution, end, why.clone());
        }
        for (job, index) in self.ops_slots_on(id) {
            if which(JobType::Ops) {
                self.abandon_ops(turn, job, index, why);
            }
        }
        self.arm_give_up(id);
    }

    /// When the execution is given up, if nothing holds that back.
    pub(crate) fn execution_due(&self, id: ExecutionId, since: Moment) -> Option<Moment> {
        let row = self.executions.get(&id)?;
        let explicit = self.jobs.get(&row.job).is_some_and(|job| job.plan.lost_after.is_some());
        Some(self.held_back(self.give_up_at(row, since)?, explicit))
    }

    fn slot_due(&self, id: JobId, since: Moment) -> Option<Moment> {
        let job = self.jobs.get(&id)?;
        let due = since + self.patience(job, None, since)?;
        Some(self.held_back(due, job.plan.lost_after.is_some()))
    }

    fn held_back(&self, due: Moment, explicit: bool) -> Moment {
        let due = due.max(self.silence.not_before);
        match self.silence.mass {
            Mass::Holding(until) if !explicit => due.max(until),
            Mass::None if !explicit => due.max(self.silence.others_may_follow_until),
            Mass::Holding(_) | Mass::None | Mass::Spent => due,
        }
    }

    /// Slots of ops jobs that wait for this node.
    fn ops_slots_on(&self, id: NodeId) -> Vec<(JobId, u32)> {
        let Some(node) = self.nodes.get(&id) else { return Vec::new() };
        let slots = node.pinned.iter().map(|(rank, index)| (rank.job, *index));
        let is_ops = |job: &LiveJob| job.plan.job_type == JobType::Ops;
        slots.filter(|(job, _)| self.jobs.get(job).is_some_and(|job| is_ops(job))).collect()
    }

    /// Whether the node has something that is to be given up, and no timer for it.
    pub(crate) fn waits_without_timer(&self, id: NodeId) -> bool {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return false;
        };
        let due = self.executions_on(id).into_iter();
        let mut due = due.filter_map(|execution| self.execution_due(execution, since));
        due.next().is_some() && !self.timers.is_set(Timer::GiveUp(id))
    }

    /// One timer stands for the first thing on the node that will be given up.
    pub(crate) fn arm_give_up(&mut self, id: NodeId) {
        let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) else {
            return self.timers.cancel(Timer::GiveUp(id));
        };
        let executions = self.executions_on(id).into_iter();
        let executions = executions.filter_map(|execution| self.execution_due(execution, since));
        let slots = self.ops_slots_on(id).into_iter();
        let slots = slots.filter_map(|(job, _)| self.slot_due(job, since));
        match executions.chain(slots).min() {
            Some(first) => self.timers.set(first, Timer::GiveUp(id)),
            None => self.timers.cancel(Timer::GiveUp(id)),
        }
    }

    /// The same for every silent node, after something that held all of them back has ended.
    pub(crate) fn arm_all(&mut self) {
        let nodes: Vec<_> = self.silence.nodes.iter().map(|(_, id)| *id).collect();
        for node in nodes {
            self.arm_give_up(node);
        }
    }

    /// A node that was loaded from the store without its lease.
    pub(crate) fn restore_silence(&mut self, id: NodeId, since: Moment) {
        self.silence.nodes.insert((since, id));
    }

    pub(crate) fn forget_silence(&mut self, id: NodeId) {
        if let Some(since) = self.nodes.get(&id).and_then(|node| node.row.silent_since) {
            self.silence.nodes.remove(&(since, id));
        }
    }
}
