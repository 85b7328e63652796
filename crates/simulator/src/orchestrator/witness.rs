//! A witness of what the orchestrator decides: no work is given up before the patience that it
//! deserves has passed, and no slot is placed where it has just failed.
//!
//! It knows when each node was heard, and reads in the history when executions were accepted and
//! failed. It works out the patience for itself, from the submitted job rather than from what the
//! scheduler keeps of it.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobType};
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::batch::{Content, NumberedCommit};
use scheduler::change::{EventRow, EventSubject, ExecutionRow, NodeRow};
use scheduler::silence::HeartbeatArrival;
use scheduler::time::Moment;

use super::disk::Disk;
use crate::docker::NO_IMAGE;

/// What the history says of an execution that is given up for the silence of its node.
const GIVEN_UP: &str = "its node was lost: no heartbeat";

/// What an ops job says that fails because a node is silent or gone.
const OPS_STAY: &str = "an ops job stays on its original nodes";

/// The patience for a batch run is its length divided by this.
const PATIENCE_PER_RUN: u32 = 50;

/// The longest patience for a batch run, and the patience for an ops job.
const LONGEST: Duration = Duration::from_secs(600);

/// A node whose agent has not finished what it does for so long is offered nothing.
const STALLED: Duration = Duration::from_secs(5);

/// A slot avoids a node on which it failed for at least this long.
const EXCLUSION: Duration = Duration::from_secs(30);

#[derive(Default)]
pub(crate) struct Witness {
    /// When the service last heard each node, by the clock of the service.
    heard: BTreeMap<NodeId, Moment>,
    /// Agents that last said that they do not finish what they do: in which session, and when.
    stalled: BTreeMap<NodeId, (u64, Moment)>,
    accepted: BTreeMap<ExecutionId, Moment>,
    /// When each slot last failed on each node by a fault of the node.
    failed: BTreeMap<(JobId, u32, NodeId), Moment>,
    /// Executions that were given up.
    pub(crate) given_up: u64,
}

// === impl Witness ===

impl Witness {
    /// A process begins at this moment, with every node that the store has as connected. Its clock
    /// may be behind that of a process before it, whose last moments were not stored.
    pub(super) fn process_begins(&mut self, now: Moment) {
        for moment in self.heard.values_mut().chain(self.failed.values_mut()) {
            *moment = now.min(*moment);
        }
        self.state_is_loaded();
    }

    /// What was not stored is forgotten: what agents said last may be.
    pub(super) fn state_is_loaded(&mut self) {
        self.stalled.clear();
    }

    /// The scheduler took a heartbeat.
    pub(super) fn hears(&mut self, heartbeat: &HeartbeatArrival) {
        let HeartbeatArrival { node, session, at, stalled, .. } = *heartbeat;
        let heard = self.heard.entry(node).or_insert(at);
        *heard = at.max(*heard);
        match stalled >= STALLED {
            true => drop(self.stalled.insert(node, (session, at))),
            false => drop(self.stalled.remove(&node)),
        }
    }

    /// A heartbeat arrives that the scheduler may act upon immediately.
    pub(super) fn goes_on(&mut self, heartbeat: &HeartbeatArrival) {
        if heartbeat.stalled < STALLED {
            self.stalled.remove(&heartbeat.node);
        }
    }

    /// Panics if the commit gives work up early, or places it where it has just failed. Its outcome
    /// does not matter: whatever is repeated after it is committed later.
    pub(super) fn commits(&mut self, commit: &NumberedCommit, disk: &Disk, lease: Duration) {
        let Content::Batch(batch) = &commit.content else { return };
        let now = commit.stamp.moment;
        for event in &batch.output.changes.events {
            let EventSubject::Execution { job, id, node, previous, new } = event.subject else {
                self.check_abandoned(event, commit, disk, lease);
                continue;
            };
            let row = &batch.output.changes.executions[&id];
            let at = (job, row.index, node);
            // The failure of what is not wanted any more says nothing.
            let is_wanted = row.desired != DesiredState::Stopped;
            if is_wanted && new == ComputeState::Failed && *event.comment == *NO_IMAGE {
                self.failed.insert(at, now);
            }
            if previous < new && new == ComputeState::AskForBid {
                self.check_placement(at, now);
                let written = batch.output.changes.nodes.get(&node).and_then(Option::as_ref);
                let known = written.or(disk.store.nodes.get(&node));
                self.check_offer(row, known);
            }
            let was_offered = previous < ComputeState::AskForBidAccepted;
            if was_offered && new >= ComputeState::AskForBidAccepted {
                self.accepted.insert(id, now);
            }
            if is_given_up(event, new) {
                self.given_up += 1;
                self.check_patience((job, id, node), now, disk, lease);
            }
        }
    }

    fn check_placement(&self, at: (JobId, u32, NodeId), now: Moment) {
        let Some(failed) = self.failed.get(&at) else { return };
        let (job, index, node) = at;
        let ago = now.since(*failed);
        assert!(
            ago >= EXCLUSION,
            "slot {index} of job {job} is placed on {node} again, where it failed {ago:?} ago"
        );
    }

    /// No agent gets work that does not finish what it has. What was decided before it said so may
    /// be stored later, and a node that was forgotten since begins anew.
    fn check_offer(&self, row: &ExecutionRow, node: Option<&NodeRow>) {
        let Some((in_session, at)) = self.stalled.get(&row.node) else { return };
        let is_same = |node: &NodeRow| node.session == *in_session && node.joined_at <= *at;
        assert!(
            !node.is_some_and(is_same) || row.offered_at <= *at,
            "execution {} is offered to node {}, whose agent does not finish what it does",
            row.id,
            row.node
        );
    }

    /// An ops job fails for a silent node only after the patience for it, whether or not the node had
    /// answered the offer.
    fn check_abandoned(
        &self,
        event: &EventRow,
        commit: &NumberedCommit,
        disk: &Disk,
        lease: Duration,
    ) {
        let Some(job) = event.job() else { return };
        let Some(index) = abandoned_slot(&event.comment) else { return };
        let Content::Batch(batch) = &commit.content else { return };
        let stored = disk.store.executions.values().chain(batch.output.changes.executions.values());
        let placed = stored.filter(|row| row.job == job && row.index == index).map(|row| row.node);
        let waiting = disk.store.pending_slots.get(&(job, index)).and_then(|slot| slot.pinned);
        // An ops slot stays on one node, and may never have been placed there.
        let Some(node) = waiting.into_iter().chain(placed).next() else { return };
        let Some(heard) = self.heard.get(&node) else { return };
        let silence = commit.stamp.moment.since(*heard);
        let Some(spec) = disk.specs.get(&job) else { return };
        let patience = patience(spec, Duration::ZERO).map(|patience| patience.max(lease));
        assert!(
            patience.is_some_and(|patience| silence >= patience),
            "job {job} failed after a silence of {silence:?}; it deserves {patience:?}"
        );
    }

    fn check_patience(
        &self,
        (job, id, node): (JobId, ExecutionId, NodeId),
        now: Moment,
        disk: &Disk,
        lease: Duration,
    ) {
        let Some(heard) = self.heard.get(&node) else { return };
        let run = self.accepted.get(&id).map_or(Duration::ZERO, |accepted| heard.since(*accepted));
        let patience = patience(&disk.specs[&job], run).map(|patience| patience.max(lease));
        let silence = now.since(*heard);
        assert!(
            patience.is_some_and(|patience| silence >= patience),
            "execution {id} of job {job} was given up after a silence of {silence:?}, and a run of \
             {run:?}; it deserves {patience:?}"
        );
    }
}

/// The slot that this comment is about, when it fails an ops job because its node is silent.
fn abandoned_slot(comment: &str) -> Option<u32> {
    // A job that allows failures says so when the first slot fails, and repeats it at its end.
    let goes_on = comment.strip_prefix("first failed index: ");
    let goes_on = goes_on.and_then(|comment| comment.strip_suffix("; the job goes on"));
    let comment = goes_on.unwrap_or(comment);
    let is_operator = comment.contains("operator") || comment.contains("was forgotten");
    if is_operator || comment.contains("indexes failed") || !comment.ends_with(OPS_STAY) {
        return None;
    }
    let index = comment.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let (index, _) = index.unwrap_or_else(|| panic!("'{comment}' does not begin with its slot"));
    Some(index.parse().expect("a number"))
}

fn is_given_up(event: &EventRow, new: ComputeState) -> bool {
    new == ComputeState::Failed && event.comment.starts_with(GIVEN_UP)
}

/// How long the orchestrator waits for such a run of the job; `None` for ever.
fn patience(spec: &JobSpec, run: Duration) -> Option<Duration> {
    let lost_after = spec.tasks.iter().map(|task| task.timeouts.lost_after).max();
    match (spec.job_type, lost_after.filter(|seconds| *seconds > 0)) {
        (JobType::Daemon, _) => None,
        (_, Some(seconds)) => Some(Duration::from_secs(seconds)),
        (JobType::Service, None) => Some(Duration::ZERO),
        (JobType::Ops, None) => Some(LONGEST),
        (JobType::Batch, None) => Some((run / PATIENCE_PER_RUN).min(LONGEST)),
    }
}
