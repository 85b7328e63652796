//! Node health: a node that keeps failing backs off, and is then probed.
//!
//! It takes no new work for a while, and then one execution at a time. Only failures caused by the
//! node count ([`api_types::protocol::FailureCause::Node`]), and only when they involve several
//! jobs: one broken job must not idle a cluster, and one broken node must not fail a backlog.

use alloc::vec::Vec;
use core::time::Duration;

use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use crate::change::ExecutionRow;
use crate::ending::{Cause, End};
use crate::node::LiveNode;
use crate::text::Text;
use crate::time::{Moment, Now};
use crate::timer::Timer;
use crate::{Scheduler, Turn};

/// Consecutive failures after which a node backs off.
const FAILURES: u32 = 3;

/// The fewest distinct jobs that these failures must involve.
const JOBS: usize = 2;

/// How long a node takes no new work; each failed probe doubles it.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(300);

/// A probe that runs for this long shows that the node is healthy again.
pub(crate) const GOOD_PROBE: Duration = Duration::from_secs(10);

/// Stored with the node, so that a restart does not send a backlog to a broken one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    #[default]
    Well,
    /// No new work before `until`.
    BackingOff { until: Moment, length: Duration, trouble: Trouble },
    /// The node runs one execution at a time; the outcome decides its state.
    Probing { probe: Option<ExecutionId>, length: Duration, trouble: Trouble },
}

/// What is wrong with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// The time of the first failure.
    pub began: Moment,
    /// The same as wall time, for display.
    pub since: Timestamp,
    /// The latest failure, as a message.
    pub reason: Text,
}

/// Consecutive failures of a node that still counts as healthy.
#[derive(Debug, Clone, Default)]
pub(crate) struct Failures {
    count: u32,
    /// The time of the first one.
    began: Option<Now>,
    /// The jobs that failed, up to [`JOBS`].
    jobs: Vec<JobId>,
}

/// The effect of an outcome on a node's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Unchanged,
    /// The node takes no new work before this moment.
    BacksOff(Moment),
    /// The node takes work again.
    Well,
    /// The probe was inconclusive; another one may be placed.
    ProbeAgain,
}

// === impl Health ===

impl Health {
    /// Why the node takes no new work now.
    pub(crate) fn obstacle(&self) -> Option<&'static str> {
        match self {
            Self::Well | Self::Probing { probe: None, .. } => None,
            Self::BackingOff { .. } => Some("backing off after failures of its own"),
            Self::Probing { probe: Some(_), .. } => Some("being probed after failures of its own"),
        }
    }

    pub(crate) fn is_probe(&self, execution: ExecutionId) -> bool {
        matches!(self, Self::Probing { probe: Some(probe), .. } if *probe == execution)
    }

    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Well => None,
            Self::BackingOff { trouble, .. } | Self::Probing { trouble, .. } => Some(trouble),
        }
    }

    /// BackingOff => Probing.
    pub(crate) fn probe(&mut self) {
        if let Self::BackingOff { length, trouble, .. } = self {
            let (length, trouble) = (*length, trouble.clone());
            *self = Self::Probing { probe: None, length, trouble };
        }
    }

    /// Records a placement: the first execution placed on a probed node is the probe.
    pub(crate) fn placed(&mut self, execution: ExecutionId) {
        if let Self::Probing { probe: probe @ None, .. } = self {
            *probe = Some(execution);
        }
    }

    /// An execution failed because of the node.
    pub(crate) fn failed(
        &mut self,
        failures: &mut Failures,
        execution: ExecutionId,
        job: JobId,
        now: Now,
        reason: &Text,
    ) -> Verdict {
        match self {
            Self::Well => {
                failures.note(job, now);
                if !failures.are_many() {
                    return Verdict::Unchanged;
                }
                let began = core::mem::take(failures).began.unwrap_or(now);
                let trouble =
                    Trouble { began: began.moment, since: began.wall, reason: reason.clone() };
                self.back_off(FIRST, trouble, now.moment)
            }
            // Placed before the node backed off, so it is no new evidence.
            Self::BackingOff { trouble, .. } => {
                trouble.reason = reason.clone();
                Verdict::Unchanged
            }
            Self::Probing { probe, length, trouble } => {
                let is_probe = *probe == Some(execution);
                trouble.reason = reason.clone();
                let (length, trouble) = (*length, trouble.clone());
                if is_probe {
                    self.back_off((length * 2).min(LONGEST), trouble, now.moment)
                } else {
                    Verdict::Unchanged
                }
            }
        }
    }

    /// An execution ended by itself or ran long enough to show that the node can run tasks.
    pub(crate) fn ran(&mut self, failures: &mut Failures, offered_at: Moment) -> Verdict {
        let began = match self {
            Self::Well => failures.began.map(|began| began.moment),
            Self::BackingOff { trouble, .. } | Self::Probing { trouble, .. } => Some(trouble.began),
        };
        match (began, &self) {
            // Placed before the first failure: the node may have broken since.
            (Some(began), _) if offered_at <= began => Verdict::Unchanged,
            (_, Self::Well) => {
                *failures = Failures::default();
                Verdict::Unchanged
            }
            (_, Self::BackingOff { .. } | Self::Probing { .. }) => {
                *self = Self::Well;
                Verdict::Well
            }
        }
    }

    /// An execution ended in a way that says nothing about its node.
    pub(crate) fn ended(&mut self, execution: ExecutionId) -> Verdict {
        match self {
            Self::Probing { probe, .. } if *probe == Some(execution) => {
                *probe = None;
                Verdict::ProbeAgain
            }
            Self::Well | Self::BackingOff { .. } | Self::Probing { .. } => Verdict::Unchanged,
        }
    }

    fn back_off(&mut self, length: Duration, trouble: Trouble, now: Moment) -> Verdict {
        let until = now + length;
        *self = Self::BackingOff { until, length, trouble };
        Verdict::BacksOff(until)
    }
}

// === impl Failures ===

impl Failures {
    fn note(&mut self, job: JobId, now: Now) {
        self.count = self.count.saturating_add(1);
        self.began.get_or_insert(now);
        if self.jobs.len() < JOBS && !self.jobs.contains(&job) {
            self.jobs.push(job);
        }
    }

    fn are_many(&self) -> bool {
        self.count >= FAILURES && self.jobs.len() >= JOBS
    }
}

// === impl Scheduler: health ===

impl Scheduler {
    /// Records a placement: on a probed node the execution is the node's probe, and for a job whose
    /// image cannot be fetched it is the job's probe.
    pub(crate) fn note_placed(
        &mut self,
        turn: &mut Turn<'_>,
        job: JobId,
        execution: ExecutionId,
        id: NodeId,
    ) {
        let extra = self.jobs.get_mut(&job).and_then(|job| job.extras.existing());
        if extra.is_some_and(|extra| extra.fetch.placed(execution)) {
            self.withdraw_from_queue(job);
        }
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.row.health != Health::Well {
            node.row.health.placed(execution);
            self.follow_node(id);
            self.review_reservation(turn, id);
        }
    }

    /// Updates a node's health after one of its executions ended. Returns whether it was a probe.
    pub(crate) fn update_health(
        &mut self,
        turn: &mut Turn<'_>,
        row: &ExecutionRow,
        end: End,
        was_wanted: bool,
    ) -> bool {
        let Some(node) = self.nodes.get_mut(&row.node) else { return false };
        let now = Now { moment: turn.now, wall: turn.wall };
        let (health, failures) = (&mut node.row.health, &mut node.failures);
        let was_probe = health.is_probe(row.id);
        let verdict = match end {
            End::Completed | End::Failed { .. } | End::Unpublished => {
                health.ran(failures, row.offered_at)
            }
            End::Disturbed(Cause::Node) | End::Unanswered if was_wanted => {
                health.failed(failures, row.id, row.job, now, &row.compute_message)
            }
            End::Disturbed(
                Cause::Fetch
                | Cause::Node
                | Cause::Lost
                | Cause::Removed
                | Cause::Missing
                | Cause::Room,
            )
            | End::Unanswered
            | End::Unreadable
            | End::Declined(_)
            | End::Unwanted
            | End::Cancelled => health.ended(row.id),
        };
        self.follow_verdict(turn, row.node, verdict);
        was_probe
    }

    /// The probe's process started; if it runs long enough, the node is healthy.
    pub(crate) fn probe_started(
        &mut self,
        turn: &Turn<'_>,
        node_id: NodeId,
        execution: ExecutionId,
    ) {
        let node = self.nodes.get(&node_id);
        if node.is_some_and(|node| node.row.health.is_probe(execution)) {
            self.timers.set(turn.now + GOOD_PROBE, Timer::Probe(node_id));
        }
    }

    pub(crate) fn probe_ran(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        let Health::Probing { probe: Some(probe), .. } = &node.row.health else { return };
        let Some(row) = self.executions.get(probe) else { return };
        let verdict = node.row.health.ran(&mut node.failures, row.offered_at);
        self.follow_verdict(turn, id, verdict);
        self.fill_node(turn, id);
    }

    /// BackingOff => Probing.
    pub(crate) fn back_off_ended(&mut self, turn: &mut Turn<'_>, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.row.health.probe();
        self.node_changed(turn, id);
    }

    fn follow_verdict(&mut self, turn: &mut Turn<'_>, id: NodeId, verdict: Verdict) {
        match verdict {
            Verdict::Unchanged => return,
            Verdict::BacksOff(until) => {
                self.timers.cancel(Timer::Probe(id));
                self.timers.set(until, Timer::BackOff(id));
            }
            Verdict::Well => {
                self.timers.cancel(Timer::Probe(id));
                self.timers.cancel(Timer::BackOff(id));
            }
            Verdict::ProbeAgain => self.timers.cancel(Timer::Probe(id)),
        }
        // Waiting slots are placed once the end of the execution has been handled, and daemons that
        // the node lacks with the next tick.
        self.store_node(turn, id);
        if self.nodes.get(&id).is_some_and(LiveNode::takes_work) && !self.daemons.is_empty() {
            self.backlog.covers.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn job(number: u128) -> JobId {
        JobId::from_uuid(Uuid::from_u128(number))
    }

    fn execution(number: u128) -> ExecutionId {
        ExecutionId::from_uuid(Uuid::from_u128(number))
    }

    fn at(seconds: u64) -> Now {
        Now { moment: Moment(seconds * 1_000_000_000), wall: Timestamp(0) }
    }

    const WHY: Text = Text::Constant("docker answers 500");

    fn backing_off() -> Health {
        let (mut health, mut failures) = (Health::default(), Failures::default());
        for number in 1..=3 {
            let now = at(u64::try_from(number).unwrap_or(0));
            health.failed(&mut failures, execution(number), job(number), now, &WHY);
        }
        health
    }

    #[test]
    fn three_failures_in_a_row_from_two_jobs_make_a_node_back_off() {
        let (mut health, mut failures) = (Health::default(), Failures::default());
        for number in 1..=9 {
            let verdict = health.failed(&mut failures, execution(number), job(1), at(1), &WHY);
            assert_eq!(verdict, Verdict::Unchanged, "one job says nothing about a node");
        }
        let verdict = health.failed(&mut failures, execution(10), job(2), at(2), &WHY);
        assert_eq!(verdict, Verdict::BacksOff(at(12).moment));
    }

    #[test]
    fn a_run_that_went_well_in_between_begins_the_count_anew() {
        let (mut health, mut failures) = (Health::default(), Failures::default());
        for number in 1..=2 {
            health.failed(&mut failures, execution(number), job(number), at(1), &WHY);
        }
        health.ran(&mut failures, at(2).moment);
        let verdict = health.failed(&mut failures, execution(3), job(3), at(3), &WHY);
        assert_eq!((verdict, health), (Verdict::Unchanged, Health::Well));
    }

    #[test]
    fn a_probe_that_fails_doubles_the_back_off_and_one_that_runs_ends_it() {
        let (mut health, mut failures) = (backing_off(), Failures::default());
        let mut lengths = Vec::new();
        for number in 10..17 {
            health.probe();
            assert_eq!(health.obstacle(), None);
            health.placed(execution(number));
            assert!(health.obstacle().is_some(), "one probe at a time");
            let now = at(100);
            match health.failed(&mut failures, execution(number), job(1), now, &WHY) {
                Verdict::BacksOff(until) => lengths.push(until.since(now.moment).as_secs()),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(lengths, [20, 40, 80, 160, 300, 300, 300]);
        health.probe();
        health.placed(execution(20));
        assert_eq!(health.ended(execution(20)), Verdict::ProbeAgain);
        health.placed(execution(21));
        assert_eq!(health.ran(&mut failures, at(101).moment), Verdict::Well);
        assert_eq!(health, Health::Well);
    }

    #[test]
    fn a_run_that_began_before_the_trouble_proves_nothing() {
        let (mut health, mut failures) = (backing_off(), Failures::default());
        assert_eq!(health.ran(&mut failures, at(1).moment), Verdict::Unchanged);
        assert!(health.obstacle().is_some());
    }
}
