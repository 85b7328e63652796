//! Records to store, and a seeded source of variety.

mod node;

use std::collections::BTreeMap;

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::job::{JobSpec, JobStateType, JobType, RetryPolicy, Task};
use api_types::quantity::Resources;
use api_types::{EvaluationId, ExecutionId, JobId, NodeId, Timestamp};
use scheduler::change::{
    Changes, EventRow, EventSubject, ExecutionRow, JobRow, NewJobRow, PendingSlotRow, Tries,
};
use scheduler::exclusion::{Exclusion, Exclusions};
use scheduler::plan::JobPlan;
use scheduler::slots::Slots;
use scheduler::time::Moment;
use uuid::Uuid;

use crate::clock::{Reading, Stamp};
use crate::store::{
    Commit, CommitId, IdempotencyRow, Outcome, Removal, Removed, RequestKey, Retention, Store,
    StoreError, Write,
};

pub(super) use self::node::node;
pub(in crate::store) use self::node::session_request;

/// SplitMix64: the same seed gives the same numbers.
pub(in crate::store) struct Random(pub u64);

/// A job in both of its parts.
#[derive(Debug, Clone)]
pub(in crate::store) struct Sample {
    pub new: NewJobRow,
    pub row: JobRow,
}

// === impl Random ===

impl Random {
    pub(in crate::store) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(in crate::store) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(in crate::store) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(in crate::store) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let at = self.below(items.len() as u64);
        &items[usize::try_from(at).unwrap()]
    }

    pub(in crate::store) fn uuid(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.next(), self.next())
    }

    pub(in crate::store) fn job_id(&mut self) -> JobId {
        JobId::from_uuid(self.uuid())
    }

    pub(in crate::store) fn node_id(&mut self) -> NodeId {
        NodeId::from_uuid(self.uuid())
    }

    pub(in crate::store) fn evaluation_id(&mut self) -> EvaluationId {
        EvaluationId::from_uuid(self.uuid())
    }

    pub(in crate::store) fn execution_id(&mut self) -> ExecutionId {
        ExecutionId::from_uuid(self.uuid())
    }
}

// === impl Sample ===

impl Sample {
    /// A pending batch job of one slot.
    pub(in crate::store) fn job(random: &mut Random) -> Self {
        let id = random.job_id();
        let create_time = Timestamp(1_700_000_000_000_000_000);
        let new = NewJobRow {
            id,
            namespace: "default".to_owned(),
            name: id.to_string(),
            job_type: JobType::Batch,
            priority: 50,
            labels: BTreeMap::new(),
            create_time,
            created_at: Moment(5),
            spec_json: format!(r#"{{"Name":"{id}"}}"#).into(),
            depends_on: Vec::new(),
            plan: plan(&id.to_string()).to_text().into(),
        };
        let row = JobRow {
            id,
            state: JobStateType::Pending,
            message: "accepted".into(),
            version: 1,
            revision: 1,
            modify_time: create_time,
            last_event_time: create_time,
            waiting_since: None,
            ended_at: None,
            start_time: None,
            running: 0,
            failed: 0,
            slots: Slots::below(1),
            fresh: 0,
            completed: 0,
            failed_slots: 0,
            evaluation: random.evaluation_id(),
            live: true,
        };
        Self { new, row }
    }

    pub(in crate::store) fn of_type(random: &mut Random, job_type: JobType, slots: u32) -> Self {
        let mut sample = Self::job(random);
        sample.new.job_type = job_type;
        sample.row.slots = Slots::below(slots);
        sample
    }

    pub(in crate::store) fn id(&self) -> JobId {
        self.new.id
    }

    pub(in crate::store) fn add_to(&self, changes: &mut Changes) {
        changes.new_jobs.push(self.new.clone());
        changes.jobs.insert(self.new.id, self.row.clone());
    }

    pub(in crate::store) fn changes(&self) -> Changes {
        let mut changes = Changes::default();
        self.add_to(&mut changes);
        changes
    }

    /// An execution of the job with every field set.
    pub(in crate::store) fn execution(&self, random: &mut Random, index: u32) -> ExecutionRow {
        ExecutionRow {
            id: random.execution_id(),
            job: self.new.id,
            version: self.row.version,
            index,
            node: random.node_id(),
            session: u64::MAX,
            evaluation: random.evaluation_id(),
            resources: Resources {
                cpu_millis: 1500,
                memory_bytes: 1 << 40,
                disk_bytes: u64::MAX,
                gpus: 2,
            },
            desired: DesiredState::Running,
            desired_message: "offered".into(),
            compute: ComputeState::AskForBid,
            compute_message: "".into(),
            tries: Tries {
                attempt: 3,
                infra_failures: 2,
                short_runs: 1,
                exclusions: exclusions(&[random.node_id(), random.node_id()]),
                refused_by: Some(random.node_id()),
            },
            previous: Some(random.execution_id()),
            followup: Some(random.evaluation_id()),
            revision: 4,
            create_time: Timestamp(1_700_000_000_000_000_001),
            modify_time: Timestamp(1_700_000_000_000_000_002),
            offered_at: Moment(7),
            accepted_at: None,
            started_at: None,
            process_ended_at: Some(Moment(11)),
        }
    }

    pub(in crate::store) fn pending_slot(&self, random: &mut Random, index: u32) -> PendingSlotRow {
        PendingSlotRow {
            job: self.new.id,
            index,
            evaluation: random.evaluation_id(),
            pinned: Some(random.node_id()),
            tries: Tries {
                attempt: 1,
                infra_failures: 0,
                short_runs: 7,
                exclusions: exclusions(&[random.node_id()]),
                refused_by: Some(random.node_id()),
            },
            due: Some(Moment(1_800_000_000_000_000_000)),
            previous: Some(random.execution_id()),
        }
    }

    pub(in crate::store) fn event(&self, seq: u64) -> EventRow {
        EventRow {
            seq,
            time: Timestamp(1_700_000_000_000_000_000 + i64::try_from(seq).unwrap()),
            revision: seq,
            comment: format!("event {seq}").into(),
            subject: EventSubject::Job {
                job: self.new.id,
                previous: JobStateType::Pending,
                new: JobStateType::Running,
            },
        }
    }
}

/// The plan of a small job in this namespace.
pub(super) fn plan(namespace: &str) -> JobPlan {
    JobPlan::from_spec(&JobSpec {
        name: String::new(),
        namespace: namespace.to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        count: 1,
        max_running: 0,
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: BTreeMap::new(),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task::new("main", EngineType::Docker)],
    })
    .unwrap()
}

/// Commits under the present term and without a word about the time, and single lookups.
pub(in crate::store) trait Put {
    fn write(
        &mut self,
        number: u64,
        moment: Moment,
        write: Write<'_>,
    ) -> Result<Outcome, StoreError>;

    fn put(
        &mut self,
        number: u64,
        changes: &Changes,
        keys: &[IdempotencyRow],
    ) -> Result<(), StoreError> {
        let write = Write::Batch { changes, keys, records: &[], audit: &[], loads: &[] };
        self.write(number, stamp(number).moment, write).map(drop)
    }

    fn last_commit(&mut self) -> Result<u64, StoreError>;

    fn next(&mut self, moment: Moment, write: Write<'_>) -> Result<Outcome, StoreError> {
        let number = self.last_commit()? + 1;
        self.write(number, moment, write)
    }

    fn probe(&mut self) -> Result<(), StoreError> {
        self.next(Moment(0), Write::Probe).map(drop)
    }

    fn prune(
        &mut self,
        now: Moment,
        retention: &Retention,
        rows: u32,
    ) -> Result<Removed, StoreError> {
        let removal = Removal::Jobs { retention: *retention, rows };
        self.next(now, Write::Removal(removal)).map(removed)
    }

    fn forget_keys(&mut self, oldest: Moment, limit: u32) -> Result<u32, StoreError> {
        let removal = Removal::Keys { oldest, limit };
        self.next(Moment(0), Write::Removal(removal)).map(|outcome| removed(outcome).count)
    }

    fn idempotency(
        &mut self,
        key: &RequestKey,
        oldest: Moment,
    ) -> Result<Option<IdempotencyRow>, StoreError>;

    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError>;
}

impl<S: Store + ?Sized> Put for S {
    fn write(
        &mut self,
        number: u64,
        moment: Moment,
        write: Write<'_>,
    ) -> Result<Outcome, StoreError> {
        let term = self.progress()?.term;
        let stamp = Stamp { moment, ..stamp(number) };
        self.commit(&Commit { id: CommitId { term, number }, stamp, write })
    }

    fn last_commit(&mut self) -> Result<u64, StoreError> {
        self.progress().map(|progress| progress.last_commit)
    }

    fn idempotency(
        &mut self,
        key: &RequestKey,
        oldest: Moment,
    ) -> Result<Option<IdempotencyRow>, StoreError> {
        let mut known = self.lookup(std::slice::from_ref(key), oldest, &[])?;
        Ok(known.keys.remove(key))
    }

    fn has_job(&mut self, id: JobId) -> Result<bool, StoreError> {
        Ok(self.lookup(&[], Moment(0), &[id])?.jobs.contains(&id))
    }
}

/// What a commit removed; nothing if nothing was due.
pub(super) fn removed(outcome: Outcome) -> Removed {
    match outcome {
        Outcome::Written(removed) => removed,
        Outcome::Repeated | Outcome::Idle => Removed::default(),
    }
}

pub(super) fn stamp(number: u64) -> Stamp {
    let reading = Reading { boot_id: [3; 16], boot: number, wall: Timestamp(-5) };
    Stamp { reading, moment: Moment(100 + number) }
}

pub(in crate::store) fn key(key: &str) -> RequestKey {
    RequestKey { namespace: "default".to_owned(), key: key.to_owned() }
}

pub(in crate::store) fn key_row(text: &str, stored_at: u64) -> IdempotencyRow {
    IdempotencyRow {
        key: key(text),
        body_hash: [7; 32],
        answer: format!("answer to {text}"),
        stored_at: Moment(stored_at),
    }
}

pub(super) fn exclusions(nodes: &[NodeId]) -> Exclusions {
    let exclude =
        |node: &NodeId| Exclusion { node: *node, until: Moment(u64::MAX / 4), failures: 3 };
    Exclusions(nodes.iter().map(exclude).collect())
}
