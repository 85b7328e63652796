//! An in-memory store, for tests of the scheduler and for the simulator.
//!
//! It follows the same contract as the durable store, except that it does not survive the process;
//! a clone is what a crash would leave.

mod dependencies;
mod retention;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::audit::{AuditChain, AuditRecord};
use api_types::dependency::Indexes;
use api_types::history::{EventType, NodeStateType};
use api_types::job::{JobSpec, JobStateType, JobType};
use api_types::{ExecutionId, JobId, NodeId};
use scheduler::change::{
    Changes, EventRow, EventSubject, ExecutionRow, JobOutcomes, JobRow, Live, LiveJobRow,
    LoadedPlan, NamedJob, NewGraphRow, NewJobRow, NodeRow, OutputRow, PendingSlotRow, SlotNode,
};
use scheduler::outcomes::{Chunk, Outcomes};
use scheduler::plan::JobPlan;
use scheduler::text::Text;
use scheduler::time::Moment;

use crate::audit::{Chain, Chains};
use crate::clock::Stamp;
use crate::records::{Record, RecordKey, RecordRow};

use super::{
    Admission, Commit, FORGOTTEN_NODES_EVENTS, IdempotencyRow, LookupResults, NODE_EVENTS, Outcome,
    Progress, Removal, Removed, RequestKey, Store, StoreError, Term, Write,
};

#[derive(Debug, Default, Clone)]
pub struct MemoryStore {
    pub new_jobs: BTreeMap<JobId, NewJobRow>,
    pub jobs: BTreeMap<JobId, JobRow>,
    pub executions: BTreeMap<ExecutionId, ExecutionRow>,
    pub outputs: BTreeMap<ExecutionId, OutputRow>,
    pub successors: BTreeMap<ExecutionId, ExecutionId>,
    pub pending_slots: BTreeMap<(JobId, u32), PendingSlotRow>,
    pub outcomes: BTreeMap<(JobId, u32), Chunk>,
    pub first_failures: BTreeMap<JobId, Text>,
    /// When jobs began whose slots wait for those of others one by one.
    pub begun: BTreeMap<JobId, Moment>,
    pub graphs: Vec<NewGraphRow>,
    /// The nodes of slots of ops jobs that ended before they were placed.
    pub unplaced: BTreeMap<(JobId, u32), NodeId>,
    pub nodes: BTreeMap<NodeId, NodeRow>,
    pub events: Vec<EventRow>,
    /// Sequences of those that belong to nodes that are gone.
    of_forgotten_nodes: BTreeSet<u64>,
    pub keys: BTreeMap<RequestKey, IdempotencyRow>,
    records: BTreeMap<RecordKey, Record>,
    pub audit: Vec<AuditRecord>,
    progress: Progress,
    /// In the order of submissions.
    numbers: BTreeMap<JobId, u64>,
    /// Separate from the events, which retention removes.
    last_seq: u64,
    last_number: u64,
}

// === impl MemoryStore ===

impl MemoryStore {
    /// Adds a record as if an earlier process had stored it.
    pub fn put_record(&mut self, record: Record) {
        self.records.insert(record.key.clone(), record);
    }

    /// Leaves numbers out, as a takeover after the promotion of a standby does.
    pub fn skip_numbers(&mut self, count: u64) {
        self.progress.last_commit += count;
        self.last_seq += count;
    }

    /// A takeover stores its clocks.
    pub fn set_stamp(&mut self, stamp: Option<Stamp>) {
        self.progress.stamp = stamp.or(self.progress.stamp);
    }

    /// The events of a job, in order.
    pub fn history(&self, job: JobId, level: EventType) -> Vec<&EventRow> {
        self.events
            .iter()
            .filter(|event| event.job() == Some(job) && event.event_type() == level)
            .collect()
    }

    pub fn record(&self, key: &RecordKey) -> Option<&Record> {
        self.records.get(key)
    }

    /// The events of a node, in order.
    pub fn node_history(&self, id: NodeId) -> Vec<&EventRow> {
        self.events.iter().filter(|event| node_of(event) == Some(id)).collect()
    }

    /// The executions of a job, by slot, then age.
    pub fn executions_of(&self, job: JobId) -> Vec<&ExecutionRow> {
        let mut rows: Vec<_> = self.executions.values().filter(|row| row.job == job).collect();
        rows.sort_by_key(|row| {
            (row.index, row.create_time, row.tries.attempt, row.tries.infra_failures)
        });
        rows
    }

    /// What became of the job's slots, as far as it is stored.
    pub fn outcomes_of(&self, job: JobId) -> Outcomes {
        let mut outcomes = Outcomes::default();
        for ((_, number), chunk) in self.outcomes.range((job, 0)..=(job, u32::MAX)) {
            outcomes.insert(*number, chunk.clone());
        }
        outcomes
    }

    /// The node of each slot of an ops job that has ended, as far as it is known.
    pub fn slot_nodes(&self, job: JobId) -> BTreeMap<u32, NodeId> {
        let placed = self.executions_of(job).into_iter().map(|row| (row.index, row.node));
        let unplaced = self.unplaced.range((job, 0)..=(job, u32::MAX));
        placed.chain(unplaced.map(|((_, index), node)| (*index, *node))).collect()
    }

    pub fn state(&self, job: JobId) -> Option<JobStateType> {
        self.jobs.get(&job).map(|row| row.state)
    }

    fn apply(&mut self, changes: &Changes) {
        for job in &changes.new_jobs {
            self.new_jobs.insert(job.id, job.clone());
            self.last_number += 1;
            self.numbers.insert(job.id, self.last_number);
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
        self.outcomes.extend(changes.outcomes.iter().map(|(key, chunk)| (*key, chunk.clone())));
        self.first_failures.extend(changes.first_failures.iter().cloned());
        self.begun.extend(changes.begun.iter().copied());
        self.graphs.extend(changes.new_graphs.iter().cloned());
        let unplaced = changes.unplaced.iter();
        self.unplaced.extend(unplaced.map(|(job, index, node)| ((*job, *index), *node)));
        for (id, node) in &changes.nodes {
            match node {
                Some(node) => self.nodes.insert(*id, node.clone()),
                None => self.nodes.remove(id),
            };
        }
        for event in &changes.events {
            self.events.push(event.clone());
            self.retain_node_events(event);
        }
        if let Some(last) = changes.events.last() {
            self.last_seq = last.seq;
        }
    }

    /// Removes what an event of a node is one too many for.
    fn retain_node_events(&mut self, event: &EventRow) {
        let EventSubject::Node { node, new, .. } = event.subject else { return };
        if new == NodeStateType::Unknown {
            let events = self.events.iter().filter(|event| node_of(event) == Some(node));
            self.of_forgotten_nodes.extend(events.map(|event| event.seq));
            while self.of_forgotten_nodes.len() as u64 > FORGOTTEN_NODES_EVENTS {
                let first = self.of_forgotten_nodes.pop_first();
                self.events.retain(|event| Some(event.seq) != first);
            }
        } else if event.revision > NODE_EVENTS {
            let last = event.revision - NODE_EVENTS;
            let forgotten = &self.of_forgotten_nodes;
            self.events.retain(|event| {
                node_of(event) != Some(node)
                    || event.revision > last
                    || forgotten.contains(&event.seq)
            });
        }
    }

    pub fn has_record(&self, key: &RecordKey) -> bool {
        self.records.contains_key(key)
    }

    fn keep_records(&mut self, rows: &[RecordRow]) {
        for RecordRow { key, version, value } in rows {
            match value {
                Some(value) => {
                    let (key, version, value) = (key.clone(), *version, Arc::clone(value));
                    self.records.insert(key.clone(), Record { key, version, value });
                }
                None => drop(self.records.remove(key)),
            }
        }
    }
}

impl Store for MemoryStore {
    fn load(&mut self, job: &mut dyn FnMut(LiveJobRow)) -> Result<Live, StoreError> {
        let mut live = Live {
            nodes: self.nodes.values().cloned().collect(),
            last_seq: self.last_seq,
            ..Live::default()
        };
        let mut rows: Vec<_> = self.jobs.values().filter(|row| row.live).collect();
        rows.sort_by_key(|row| self.numbers.get(&row.id));
        for row in rows {
            let new = self.new_jobs.get(&row.id).ok_or_else(|| StoreError::Record {
                detail: format!("job {} has no specification", row.id),
            })?;
            job(LiveJobRow {
                row: row.clone(),
                job_type: new.job_type,
                priority: new.priority,
                plan: match JobPlan::from_text(&new.plan) {
                    Ok(plan) => LoadedPlan::Stored(plan),
                    Err(_) => LoadedPlan::Unreadable { spec: new.spec_json.clone() },
                },
                create_time: new.create_time,
                created_at: new.created_at,
                began_at: self.begun.get(&row.id).copied(),
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
                let (job, index, node) = (row.job, row.index, row.node);
                live.covered.push(SlotNode { job, index, node, at: Some(row.offered_at) });
            }
        }
        for slot in self.pending_slots.values() {
            let (job, index) = (slot.job, slot.index);
            live.covered.extend(slot.pinned.map(|node| SlotNode { job, index, node, at: None }));
            live.pending_slots.push(slot.clone());
        }
        let over = self.kept().into_iter().filter(|(job, _)| !is_live(job));
        live.named = self.named_jobs(&over.collect());
        let has_ended = |row: &&JobRow| row.live && row.completed + row.failed_slots > 0;
        for job in self.jobs.values().filter(has_ended).map(|row| row.id) {
            let outcomes = self.outcomes_of(job);
            let first_failure = self.first_failures.get(&job).cloned();
            if first_failure.is_some() || outcomes != Outcomes::default() {
                live.outcomes.push(JobOutcomes { job, outcomes, first_failure });
            }
        }
        Ok(live)
    }

    fn audit_chains(&mut self) -> Result<Chains, StoreError> {
        let end = |chain| {
            let last = self.audit.iter().rfind(|record| record.chain == chain);
            let end = |last: &AuditRecord| (last.sequence, last.hash.clone());
            let (sequence, hash) = last.map(end).unwrap_or_default();
            Chain { sequence, hash }
        };
        Ok(Chains { changes: end(AuditChain::Changes), rest: end(AuditChain::Rest) })
    }

    fn records(&mut self) -> Result<Vec<Record>, StoreError> {
        Ok(self.records.values().cloned().collect())
    }

    fn take(&mut self) -> Result<Progress, StoreError> {
        self.progress.term = Term(self.progress.term.0 + 1);
        self.progress.began_after = self.progress.last_commit;
        Ok(self.progress)
    }

    fn progress(&mut self) -> Result<Progress, StoreError> {
        Ok(self.progress)
    }

    fn commit(&mut self, commit: &Commit<'_>) -> Result<Outcome, StoreError> {
        let Commit { id, stamp, write } = *commit;
        match self.progress.admit(id)? {
            Admission::Repeat => return Ok(Outcome::Repeated),
            Admission::New => {}
        }
        let removed = match write {
            Write::Batch { changes, keys, records, audit, loads: _ } => {
                self.audit.extend(audit.iter().cloned());
                self.keep_records(records);
                self.apply(changes);
                self.keys.extend(keys.iter().map(|row| (row.key.clone(), row.clone())));
                Removed::default()
            }
            Write::Removal(removal) => {
                let removed = match removal {
                    Removal::Jobs { retention, rows } => {
                        self.remove_jobs(stamp.moment, &retention, rows)
                    }
                    Removal::Keys { oldest, limit } => self.remove_keys(oldest, limit),
                };
                if removed.count == 0 {
                    return Ok(Outcome::Idle);
                }
                removed
            }
            Write::Probe => Removed::default(),
        };
        (self.progress.last_commit, self.progress.stamp) = (id.number, Some(stamp));
        Ok(Outcome::Written(removed))
    }

    fn named(&mut self, jobs: &BTreeMap<JobId, Indexes>) -> Result<Vec<NamedJob>, StoreError> {
        Ok(self.named_jobs(jobs))
    }

    fn resign(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn lookup(
        &mut self,
        keys: &[RequestKey],
        oldest: Moment,
        jobs: &[JobId],
    ) -> Result<LookupResults, StoreError> {
        let rows = keys.iter().filter_map(|key| self.keys.get(key));
        let rows = rows.filter(|row| row.stored_at >= oldest);
        Ok(LookupResults {
            keys: rows.map(|row| (row.key.clone(), row.clone())).collect(),
            jobs: jobs.iter().copied().filter(|id| self.jobs.contains_key(id)).collect(),
            ..LookupResults::default()
        })
    }
}

/// The node whose history has the event.
fn node_of(event: &EventRow) -> Option<NodeId> {
    match event.subject {
        EventSubject::Node { node, .. } => Some(node),
        EventSubject::Job { .. } | EventSubject::Execution { .. } => None,
    }
}

/// A job's specification as stored.
pub fn spec_json(spec: &JobSpec) -> std::sync::Arc<str> {
    serde_json::to_string(spec).expect("a specification is plain data").into()
}

#[cfg(test)]
mod tests;
