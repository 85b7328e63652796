//! What is inspected after each commit: no node is blamed that nothing has befallen, no slot is
//! placed twice at the same time, no job or group runs more executions than it allows, no job runs
//! before its conditions hold, and no node is idle that has work.

use std::collections::BTreeMap;

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::execution::ComputeState;
use api_types::job::{JobStateType, JobType};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};
use control_plane::store::memory::MemoryStore;
use scheduler::change::{EventRow, EventSubject};
use scheduler::outcomes::SlotOutcome;

use super::agent::Agent;
use super::docker::{DAMAGED, IMPOSSIBLE};
use super::orchestrator::Disk;
use super::units;
use super::workload::DECLINED;

/// What the history says of an offer that is taken back.
const UNANSWERED: &str = "no answer to the offer";

#[derive(Default)]
pub(super) struct Inspection {
    /// The events up to this one were inspected.
    seen: u64,
    /// When each offer that is out was stored.
    offered: BTreeMap<ExecutionId, Timestamp>,
    /// The execution that each slot has.
    placed: BTreeMap<(JobId, u32), ExecutionId>,
}

// === impl Inspection ===

impl Inspection {
    /// Inspects what was stored since the last time; panics if it finds something.
    pub(super) fn inspect(&mut self, disk: &Disk, agents: &mut [Agent], now: Timestamp) {
        let store = &disk.store;
        let events = store.events.iter().rev().take_while(|event| event.seq > self.seen);
        let events: Vec<_> = events.collect();
        let Some(last) = events.first() else { return };
        self.seen = last.seq;
        disk.quotas.check(&disk.store);
        let mut has_ended = false;
        for event in events.into_iter().rev() {
            has_ended |= self.inspect_event(event, disk, agents, now);
        }
        if has_ended {
            nobody_is_blamed(store, agents);
        }
    }

    /// Returns whether an execution has ended.
    fn inspect_event(
        &mut self,
        event: &EventRow,
        disk: &Disk,
        agents: &mut [Agent],
        now: Timestamp,
    ) -> bool {
        let EventSubject::Execution { job, id, node, new, .. } = event.subject else {
            return false;
        };
        let slot = (job, disk.store.executions[&id].index);
        if new == ComputeState::New {
            let other = self.placed.insert(slot, id);
            assert!(other.is_none(), "slot {slot:?} is placed while {other:?} has it");
            ends_idleness(&disk.store, id, node);
            let live = self.placed.range((job, 0)..=(job, u32::MAX)).count();
            conditions_hold(disk, job, slot.1);
            let most = disk.specs[&job].max_running;
            assert!(
                most == 0 || live <= most as usize,
                "{live} executions of job {job} are live, which allows {most}"
            );
            units::check_limits(disk, job, &self.placed);
        }
        if new == ComputeState::AskForBid {
            self.offered.entry(id).or_insert(now);
        }
        if !new.is_terminal() {
            return false;
        }
        let offered = self.offered.remove(&id).unwrap_or(now);
        if self.placed.get(&slot) == Some(&id) {
            self.placed.remove(&slot);
        }
        if event.comment.starts_with(UNANSWERED) {
            excuse(agents, id, node, offered);
        }
        true
    }
}

/// What a job depends on is as it says when this slot of it starts.
fn conditions_hold(disk: &Disk, job: JobId, slot: u32) {
    for Dependency { job_id, condition, indexes, .. } in &disk.specs[&job].depends_on {
        let row = &disk.store.jobs[job_id];
        if *indexes == Indexes::Same {
            let has_completed = match row.slots.len() {
                1 => row.completed == 1,
                _ => disk.store.outcomes_of(*job_id).get(slot) == SlotOutcome::Completed,
            };
            assert!(has_completed, "[{slot}] of {job} starts before that of {job_id} completed");
            continue;
        }
        let state = row.state;
        assert!(
            holds(*condition, state),
            "{job} starts, which waits until {job_id} is {condition}"
        );
    }
}

pub(crate) fn holds(condition: Condition, state: JobStateType) -> bool {
    match condition {
        Condition::Completed => state == JobStateType::Completed,
        Condition::Failed => state == JobStateType::Failed,
        Condition::Ended => state.is_terminal(),
    }
}

/// The commit that gives a node work also says that the node is idle no longer.
fn ends_idleness(store: &MemoryStore, id: ExecutionId, node: NodeId) {
    let row = &store.executions[&id];
    let is_daemon = store.new_jobs.get(&row.job).is_none_or(|job| job.job_type == JobType::Daemon);
    let is_idle = store.nodes.get(&node).is_some_and(|node| node.idle_since.is_some());
    let is_over = row.compute.is_terminal();
    assert!(is_daemon || is_over || !is_idle, "{node} is stored as idle, and has execution {id}");
}

/// An agent that was away for its own reasons is blamed; no other is.
fn excuse(agents: &mut [Agent], id: ExecutionId, node: NodeId, offered: Timestamp) {
    let agent = agents.iter_mut().find(|agent| agent.id == node).expect("every node has an agent");
    assert!(
        agent.trouble.was_away(offered),
        "execution {id} was taken back from {node}, which could not have answered"
    );
    agent.trouble.fails();
}

/// No node is excluded or backs off that nothing has befallen.
fn nobody_is_blamed(store: &MemoryStore, agents: &[Agent]) {
    let is_blameless =
        |node: &NodeId| agents.iter().any(|agent| agent.id == *node && !agent.trouble.has_failed());
    for row in store.nodes.values() {
        let is_blamed = !row.health.is_well() && is_blameless(&row.id);
        assert!(!is_blamed, "node {} has never failed and is {:?}", row.id, row.health);
    }
    for slot in store.pending_slots.values() {
        let mut excluded = slot.tries.exclusions.0.iter().map(|exclusion| exclusion.node);
        if let Some(node) = excluded.find(is_blameless)
            && store.new_jobs[&slot.job].name != DECLINED
        {
            let Some(before) = slot.previous.map(|id| &store.executions[&id]) else { continue };
            // A refusal is no failure of the node.
            if [DAMAGED, IMPOSSIBLE].contains(&&*before.compute_message) {
                continue;
            }
            panic!("{node} has never failed, and {slot:?} avoids it: {before:?}");
        }
    }
}
