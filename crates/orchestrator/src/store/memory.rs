//! A store that keeps everything in memory, for tests of the engine and for the simulator.
//!
//! It follows the same contract as the durable ones, apart from surviving the process; what a
//! crash would leave is a clone of it.

use std::collections::BTreeMap;

use api_types::history::EventType;
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::{ExecutionId, JobId, NodeId, Timestamp};

use super::{IdempotencyRow, Store, StoreError};
use crate::engine::change::{
    Changes, EventRow, EventSubject, ExecutionRow, JobRow, Live, LiveJobRow, NewJobRow, NodeRow,
    OutputRow, PendingSlotRow,
};

#[derive(Debug, Default, Clone)]
pub struct MemoryStore {
    pub new_jobs: BTreeMap<JobId, NewJobRow>,
    pub jobs: BTreeMap<JobId, JobRow>,
    pub executions: BTreeMap<ExecutionId, ExecutionRow>,
    pub outputs: BTreeMap<ExecutionId, OutputRow>,
    pub successors: BTreeMap<ExecutionId, ExecutionId>,
    pub pending_slots: BTreeMap<(JobId, u32), PendingSlotRow>,
    pub nodes: BTreeMap<NodeId, NodeRow>,
    pub events: Vec<EventRow>,
    pub keys: BTreeMap<String, IdempotencyRow>,
    commits: u64,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// The events of a job, in order.
    pub fn history(&self, job: JobId, level: EventType) -> Vec<&EventRow> {
        self.events
            .iter()
            .filter(|event| event.job == job)
            .filter(|event| match event.subject {
                EventSubject::Job { .. } => level == EventType::JobLevel,
                EventSubject::Execution { .. } => level == EventType::ExecutionLevel,
            })
            .collect()
    }

    /// The executions of a job, by slot, then age.
    pub fn executions_of(&self, job: JobId) -> Vec<&ExecutionRow> {
        let mut rows: Vec<_> = self.executions.values().filter(|row| row.job == job).collect();
        rows.sort_by_key(|row| (row.index, row.create_time, row.tries.attempt, row.tries.foreign));
        rows
    }

    pub fn state(&self, job: JobId) -> Option<JobStateType> {
        self.jobs.get(&job).map(|row| row.state)
    }

    fn apply(&mut self, changes: &Changes) {
        for job in &changes.new_jobs {
            self.new_jobs.insert(job.id, job.clone());
        }
        self.jobs.extend(changes.jobs.iter().map(|(id, row)| (*id, row.clone())));
        self.executions.extend(changes.executions.iter().map(|(id, row)| (*id, row.clone())));
        self.outputs.extend(changes.outputs.iter().map(|row| (row.id, row.clone())));
        self.successors.extend(changes.successors.iter().copied());
        for (key, slot) in &changes.pending_slots {
            match slot {
                Some(slot) => self.pending_slots.insert(*key, slot.clone()),
                None => self.pending_slots.remove(key),
            };
        }
        for (id, node) in &changes.nodes {
            match node {
                Some(node) => self.nodes.insert(*id, node.clone()),
                None => self.nodes.remove(id),
            };
        }
        self.events.extend(changes.events.iter().cloned());
    }
}

impl Store for MemoryStore {
    fn load(&mut self) -> Result<Live, StoreError> {
        let mut live = Live {
            nodes: self.nodes.values().cloned().collect(),
            last_seq: self.events.last().map_or(0, |event| event.seq),
            last_time: self.events.last().map_or(Timestamp::ZERO, |event| event.time),
            ..Live::default()
        };
        for row in self.jobs.values().filter(|row| row.live) {
            let new = self.new_jobs.get(&row.id).ok_or_else(|| StoreError::Record {
                detail: format!("job {} has no specification", row.id),
            })?;
            live.jobs.push(LiveJobRow {
                row: row.clone(),
                spec_json: new.spec_json.clone(),
                create_time: new.create_time,
            });
        }
        let is_live = |job: &JobId| self.jobs.get(job).is_some_and(|row| row.live);
        for row in self.executions.values().filter(|row| is_live(&row.job)) {
            if !row.compute.is_terminal() {
                live.executions.push(row.clone());
            }
            let per_node =
                matches!(self.new_jobs[&row.job].job_type, JobType::Ops | JobType::Daemon);
            if per_node {
                live.covered.push((row.job, row.index, row.node));
            }
        }
        for slot in self.pending_slots.values() {
            live.covered.extend(slot.pinned.map(|node| (slot.job, slot.index, node)));
            live.pending_slots.push(slot.clone());
        }
        Ok(live)
    }

    fn commit(
        &mut self,
        number: u64,
        changes: &Changes,
        keys: &[IdempotencyRow],
    ) -> Result<(), StoreError> {
        if number <= self.commits {
            return Ok(());
        }
        if number != self.commits + 1 {
            return Err(StoreError::CommitGap { came: number, last: self.commits });
        }
        self.apply(changes);
        self.keys.extend(keys.iter().map(|row| (row.key.clone(), row.clone())));
        self.commits = number;
        Ok(())
    }

    fn last_commit(&mut self) -> Result<u64, StoreError> {
        Ok(self.commits)
    }

    fn idempotency(
        &mut self,
        key: &str,
        oldest: Timestamp,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        Ok(self.keys.get(key).filter(|row| row.create_time >= oldest).cloned())
    }

    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError> {
        Ok(self.jobs.contains_key(&id))
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn forget_keys(&mut self, oldest: Timestamp, limit: u32) -> Result<u32, StoreError> {
        let old: Vec<_> = self
            .keys
            .values()
            .filter(|row| row.create_time < oldest)
            .take(usize::try_from(limit).unwrap_or(usize::MAX))
            .map(|row| row.key.clone())
            .collect();
        for key in &old {
            self.keys.remove(key);
        }
        Ok(u32::try_from(old.len()).unwrap_or(u32::MAX))
    }
}

/// A job's specification as it is stored.
pub fn spec_json(spec: &JobSpec) -> std::sync::Arc<str> {
    serde_json::to_string(spec).expect("a specification is plain data").into()
}
