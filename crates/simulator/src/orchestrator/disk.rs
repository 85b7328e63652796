//! What outlives the orchestrator's processes: the store, and the faults of its disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_types::job::{JobSpec, JobStateType, OnConflict};
use api_types::{JobId, NodeId, Timestamp};
use control_plane::batch::{Batch, Content, NumberedCommit};
use control_plane::clock::{Reading, Stamp};
use control_plane::records::{RecordKind, RecordRow};
use control_plane::schedule::CLOCK_TOLERANCE;
use control_plane::store::memory::MemoryStore;
use control_plane::store::{
    Admission, Commit, Exposure, Leader, Outcome, Progress, SessionSign, Sighting, Store,
    StoreError, Term, Write,
};
use scheduler::change::{EventRow, Grant, NewJobRow};
use scheduler::plan::JobPlan;
use scheduler::time::Moment;

use super::replica::Replica;
use crate::groups::{self, GROUPS, Limits};
use crate::quotas::{self, QuotaLimits};
use crate::shares::{self, Shared};
use crate::summary::Sabotage;

/// The format of the data, which never changes here.
pub(super) const FORMAT: u32 = 1;

fn is_empty(commit: &NumberedCommit) -> bool {
    matches!(&commit.content, Content::Batch(batch) if batch.is_empty())
}

pub(in crate::orchestrator) fn full() -> StoreError {
    StoreError::Full { path: "simulated".into() }
}

pub(crate) struct Disk {
    pub(crate) store: MemoryStore,
    /// Of every job, as it was submitted.
    pub(crate) specs: BTreeMap<JobId, Arc<JobSpec>>,
    /// Of concurrency groups.
    pub(crate) limits: Limits,
    pub(crate) quotas: QuotaLimits,
    /// Only equal jobs of two namespaces are live.
    pub(crate) is_shared: bool,
    /// Jobs that have waited for so long that a node was reserved for them.
    reserved: BTreeSet<JobId>,
    sabotage: Option<Sabotage>,
    /// When each node of the store joined, as the scheduler wrote it: sabotage does not change it.
    pub(crate) joined: BTreeMap<NodeId, Moment>,
    /// Nothing can be written before this moment.
    pub(crate) full_until: Timestamp,
    /// What the clocks of a machine showed at each commit and takeover, and when that was.
    readings: Vec<(Reading, Timestamp)>,
    /// The latest time that a wall clock has shown at a commit, and whether one was far behind it.
    latest_wall: Timestamp,
    pub(crate) was_set_back: bool,
    pub(crate) replica: Replica,
    /// Goes up while a process loads.
    beat: u64,
    /// Counts the IDs that the runner of schedules has made.
    pub(crate) minted: u64,
    /// Sabotage: states of schedules that the next commit stores.
    apart: Vec<RecordRow>,
}

// === impl Disk ===

impl Disk {
    pub(super) fn new(sabotage: Option<Sabotage>) -> Self {
        let mut store = MemoryStore::default();
        GROUPS.iter().for_each(|(name, limit)| store.put_record(groups::record(name, *limit)));
        Self {
            store,
            limits: Limits::initial(),
            quotas: QuotaLimits::default(),
            is_shared: false,
            reserved: BTreeSet::new(),
            specs: BTreeMap::new(),
            sabotage,
            joined: BTreeMap::new(),
            full_until: Timestamp::ZERO,
            readings: Vec::new(),
            latest_wall: Timestamp::ZERO,
            was_set_back: false,
            replica: Replica::none(),
            beat: 0,
            minted: 0,
            apart: Vec::new(),
        }
    }

    /// Begins a term after this one, or after any.
    pub(super) fn take(
        &mut self,
        own: Option<Term>,
        now: Timestamp,
    ) -> Result<Progress, StoreError> {
        let last = self.store.progress()?;
        if own.is_some_and(|own| own != last.term) && self.sabotage != Some(Sabotage::NoFence) {
            return Err(StoreError::Fenced);
        }
        if now < self.full_until {
            return Err(full());
        }
        if own.is_some() && self.replica.has_lost(&last) {
            let (acknowledged, found) = (last.last_commit + 1, last.last_commit);
            return Err(StoreError::WentBack { acknowledged, found });
        }
        self.apart.clear();
        let skipped = self.replica.taken();
        if own.is_none() && self.sabotage != Some(Sabotage::NoJump) {
            self.store.skip_numbers(skipped);
        }
        self.store.take()
    }

    pub(super) fn beat(&mut self) {
        self.beat += 1;
    }

    pub(super) fn is_led_by(&mut self, term: Term) -> bool {
        self.store.progress().is_ok_and(|progress| progress.term == term)
    }

    /// What a follower sees.
    pub(super) fn sighting(&mut self) -> Sighting {
        let Progress { term, last_commit, stamp, .. } =
            self.store.progress().expect("memory answers");
        let leader =
            Leader { address: String::new(), exposure: Exposure::Insecure, pass_key: [0; 32] };
        Sighting {
            term,
            last_commit,
            beat: self.beat,
            stamp,
            leader: Some(leader),
            session: SessionSign::Unknown,
            connection: self.replica.promotions,
            wall: Timestamp::ZERO,
            format: FORMAT,
            oldest: FORMAT,
        }
    }

    /// A commit whose answer arrives.
    pub(crate) fn commit(
        &mut self,
        commit: &NumberedCommit,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        let outcome = self.write(commit, now, true)?;
        if outcome != Outcome::Idle {
            self.replica.acknowledges(commit.id);
        }
        Ok(outcome)
    }

    /// A commit whose answer gets lost.
    pub(crate) fn commit_unseen(&mut self, commit: &NumberedCommit, now: Timestamp) {
        drop(self.write(commit, now, false));
    }

    /// A takeover stores its clocks.
    pub(super) fn stamp_takeover(&mut self, stamp: Option<Stamp>, now: Timestamp) {
        self.store.set_stamp(stamp);
        if let Some(Stamp { reading, .. }) = stamp {
            self.note_time(reading, now);
        }
    }

    /// The clocks with which the next process may continue: those of the store, and those of a standby
    /// that has less.
    pub(super) fn stamps(&mut self) -> Vec<(Reading, Timestamp)> {
        let stamp = |store: &mut MemoryStore| store.progress().expect("memory answers").stamp;
        let stored = [stamp(&mut self.store), self.replica.behind().and_then(stamp)];
        let noted = |stamp: Stamp| {
            let last = self.readings.iter().rfind(|(reading, _)| *reading == stamp.reading);
            *last.expect("every stamp is noted")
        };
        stored.into_iter().flatten().map(noted).collect()
    }

    pub(super) fn note_time(&mut self, reading: Reading, now: Timestamp) {
        self.was_set_back |= self.latest_wall.since(reading.wall) > CLOCK_TOLERANCE;
        self.latest_wall = self.latest_wall.max(reading.wall);
        self.readings.push((reading, now));
    }

    fn write(
        &mut self,
        commit: &NumberedCommit,
        now: Timestamp,
        is_seen: bool,
    ) -> Result<Outcome, StoreError> {
        let progress = self.store.progress()?;
        if self.replica.has_lost_before(commit.id, &progress) {
            let (acknowledged, found) = (commit.id.number - 1, progress.last_commit);
            return Err(StoreError::WentBack { acknowledged, found });
        }
        match progress.admit(commit.id) {
            Ok(Admission::Repeat) => {
                if self.sabotage != Some(Sabotage::ResolveByReading) {
                    self.replica.settles();
                }
                return Ok(Outcome::Repeated);
            }
            // There is room for what changes nothing.
            Ok(Admission::New) if now < self.full_until && !is_empty(commit) => return Err(full()),
            // A store without a fence takes any number that it has for a repeat.
            Err(StoreError::Fenced) if self.sabotage == Some(Sabotage::NoFence) => {
                return Ok(Outcome::Repeated);
            }
            Ok(Admission::New) | Err(_) => {}
        }
        let behind =
            if is_seen { None } else { self.replica.without(is_empty(commit), &self.store) };
        let idle = self.idle();
        let before = quotas::used(&self.store);
        let shared = self.is_shared.then(|| Shared::of(&self.store, &self.specs));
        let outcome = match self.sabotage {
            Some(Sabotage::StoreDueTimesApart) => self.write_apart(commit)?,
            _ => commit.write_to(&mut self.store)?,
        };
        self.note_joined();
        self.note_jobs(commit);
        if let Outcome::Written(_) = outcome {
            self.replica.wrote(commit.id, is_empty(commit), behind);
            self.limits.note(commit);
            self.quotas.note(commit, before);
            if let Some(before) = shared {
                shares::check(&before, &Shared::of(&self.store, &self.specs), &self.reserved);
            }
        }
        if self.sabotage == Some(Sabotage::ForgetAcceptance) {
            self.store.executions.values_mut().for_each(|row| row.accepted_at = None);
        }
        if self.sabotage == Some(Sabotage::ForgetLease) {
            self.store.nodes.values_mut().for_each(|row| row.grant = Grant::default());
        }
        if self.sabotage == Some(Sabotage::KeepIdleness) {
            for (node, since) in idle {
                if let Some(row) = self.store.nodes.get_mut(&node) {
                    row.idle_since.get_or_insert(since);
                }
            }
        }
        if self.sabotage == Some(Sabotage::ForgetJoining) {
            self.store.nodes.values_mut().for_each(|row| row.joined_at = Moment::ZERO);
        }
        if self.sabotage == Some(Sabotage::ForgetMaxRunning) {
            self.store.new_jobs.values_mut().for_each(forget_max_running);
        }
        if self.sabotage == Some(Sabotage::ForgetHolders) {
            self.forget_holders();
        }
        if self.sabotage == Some(Sabotage::ForgetUsage) {
            quotas::forget_usage(&mut self.store);
        }
        if self.sabotage == Some(Sabotage::ForgetOutcomes) {
            self.store.outcomes.clear();
        }
        if let Outcome::Written(_) = outcome {
            self.note_time(commit.stamp.reading, now);
        }
        Ok(outcome)
    }

    /// Sabotage: a job that has an execution names no group, so that a restart does not count it.
    fn forget_holders(&mut self) {
        let live = self.store.executions.values().filter(|row| !row.compute.is_terminal());
        let holders: BTreeSet<JobId> = live.map(|row| row.job).collect();
        for job in holders {
            let mut spec = JobSpec::clone(&self.specs[&job]);
            spec.concurrency_groups.clear();
            spec.on_conflict = OnConflict::Queue;
            let plan = JobPlan::from_spec(&spec).expect("it was accepted");
            let row = self.store.new_jobs.get_mut(&job).expect("a stored job has a plan");
            row.plan = plan.to_text().into();
        }
    }

    /// What a process that starts reads.
    pub(super) fn read<T>(&mut self, load: impl FnOnce(&mut MemoryStore) -> T) -> T {
        let forgets_ends = self.sabotage == Some(Sabotage::ForgetEnds);
        if !forgets_ends && self.sabotage != Some(Sabotage::ForgetCounterparts) {
            return load(&mut self.store);
        }
        let mut store = self.store.clone();
        for row in store.jobs.values_mut().filter(|row| !row.live) {
            match forgets_ends {
                true => row.state = JobStateType::Running,
                false => (row.completed, row.failed_slots) = (0, 0),
            }
        }
        if !forgets_ends {
            let jobs = &store.jobs;
            store.outcomes.retain(|(job, _), _| jobs[job].live);
        }
        load(&mut store)
    }

    /// Sabotage: the job of a due time is one commit, and that it is decided is in the next.
    fn write_apart(&mut self, commit: &NumberedCommit) -> Result<Outcome, StoreError> {
        let Content::Batch(batch) = &commit.content else {
            return commit.write_to(&mut self.store);
        };
        let is_state = |row: &RecordRow| row.key.kind == RecordKind::ScheduleState;
        let (states, rest): (Vec<_>, Vec<_>) = batch.records.iter().cloned().partition(is_state);
        let mut records = std::mem::replace(&mut self.apart, states);
        records.extend(rest);
        let Batch { output, keys, audit, loads, .. } = &**batch;
        let (changes, records) = (&output.changes, &*records);
        let write = Write::Batch { changes, keys, records, audit, loads };
        self.store.commit(&Commit { id: commit.id, stamp: commit.stamp, write })
    }

    /// The nodes that are stored as idle.
    fn idle(&self) -> Vec<(NodeId, Timestamp)> {
        let nodes = self.store.nodes.values();
        nodes.filter_map(|row| Some((row.id, row.idle_since?))).collect()
    }

    fn note_jobs(&mut self, commit: &NumberedCommit) {
        let Content::Batch(batch) = &commit.content else { return };
        for job in &batch.output.changes.new_jobs {
            let spec = serde_json::from_str(&job.spec_json).expect("what was submitted");
            self.specs.insert(job.id, Arc::new(spec));
        }
        let events = batch.output.changes.events.iter();
        let reservations = events.filter(|event| event.comment.contains("is reserved for it"));
        self.reserved.extend(reservations.filter_map(EventRow::job));
    }

    fn note_joined(&mut self) {
        let nodes = &self.store.nodes;
        self.joined.retain(|node, _| nodes.contains_key(node));
        for row in nodes.values() {
            let joined = self.joined.entry(row.id).or_default();
            *joined = row.joined_at.max(*joined);
        }
    }
}

/// Sabotage: the stored plan has no limit. The specification has it, but a start does not read that.
fn forget_max_running(job: &mut NewJobRow) {
    let mut spec: JobSpec = serde_json::from_str(&job.spec_json).expect("what was submitted");
    if spec.max_running > 0 {
        spec.max_running = 0;
        let plan = JobPlan::from_spec(&spec).expect("it was accepted");
        job.plan = plan.to_text().into();
    }
}
