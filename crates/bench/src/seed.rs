//! Creates a state database of a given size with the scheduler and the store, without HTTP: a million
//! submissions over sockets would take longer than the measurements.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use api_types::engine::EngineType;
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType, RetryPolicy, Task};
use api_types::protocol::{Report, SessionRequest};
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::clock::{Reading, ServiceClock};
use control_plane::store::sqlite;
use control_plane::store::{Commit, CommitId, Progress, Store, Term, Write};
use scheduler::change::Effect;
use scheduler::input::{Answer, Input, Submit};
use scheduler::mint::Mint;
use scheduler::{Output, Restore, Scheduler, Settings};
use testbed::fleet;
use uuid::Uuid;

/// Inputs per commit.
const BATCH: u64 = 1000;

/// A node, and its session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joined {
    node: NodeId,
    session: u64,
}

/// Number of values of the label `team`, so that a selector matches a part of the jobs.
pub(super) const TEAMS: u64 = 100;

pub(super) struct Seed {
    scheduler: Scheduler,
    clock: ServiceClock,
    store: Box<dyn Store>,
    term: Term,
    commits: u64,
    output: Output,
    last_id: u128,
}

// === impl Seed ===

impl Seed {
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let (mut store, _) = sqlite::open(directory)?;
        let progress = store.take()?;
        Self::continuing(Box::new(store), &progress)
    }

    /// In a store whose term is this process's.
    pub(super) fn continuing(
        mut store: Box<dyn Store>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let mut restore = Restore::new(Settings::default(), Mint::from_seed([1; 32]));
        let live = store.load(&mut |job| restore.job(job))?;
        let reading = Reading::now();
        let mut clock = ServiceClock::resume(progress.stamp, &reading);
        let scheduler = restore.finish(live, clock.now(&reading).moment)?;
        let (term, commits) = (progress.term, progress.last_commit);
        let output = Output::default();
        Ok(Self { scheduler, clock, store, term, commits, output, last_id: 1 << 96 })
    }

    /// Closes the database and flushes it to disk, so that no writes disturb the measurements.
    pub(super) fn finish(self) {
        drop(self);
        rustix::fs::sync();
    }

    /// Adds queued jobs; there is no node.
    pub(super) fn queued(&mut self, jobs: u64) -> anyhow::Result<()> {
        for number in 0..jobs {
            self.submit(number, 1)?;
            if number % BATCH == 0 {
                self.commit()?;
            }
        }
        self.commit()?;
        Ok(())
    }

    /// Adds ended jobs; returns a sample of their ids.
    pub(super) fn ended(&mut self, jobs: u64) -> anyhow::Result<Vec<JobId>> {
        /// Size of the sample.
        const SAMPLES: u64 = 1000;
        let mut ids = Vec::new();
        for number in 0..jobs {
            let job = self.submit(number, 1)?;
            if number % (jobs / SAMPLES).max(1) == 0 {
                ids.push(job);
            }
            self.handle(Input::Stop { job, reason: "seeded".to_owned() })?;
            if number % BATCH == 0 {
                self.commit()?;
            }
        }
        self.commit()?;
        Ok(ids)
    }

    /// Adds empty nodes with four cores and these labels.
    pub(super) fn nodes(
        &mut self,
        nodes: u32,
        labels: impl Fn(u32) -> BTreeMap<String, String>,
    ) -> anyhow::Result<()> {
        for number in 0..nodes {
            let node = NodeId::from_uuid(Uuid::from_u128(u128::from(number) + (1 << 90)));
            let request = SessionRequest { labels: labels(number), ..fleet::record(4.0) };
            self.handle(Input::Join { node, request: Box::new(request) })?;
            if u64::from(number) % BATCH == 0 {
                self.commit()?;
            }
        }
        self.commit()?;
        Ok(())
    }

    /// Adds running executions on one node.
    pub(super) fn live(&mut self, executions: u32) -> anyhow::Result<()> {
        const COUNT: u32 = 1000;
        let joined = self.join()?;
        for number in 0..u64::from(executions / COUNT) {
            self.submit(number, COUNT)?;
            // One tick may not place all executions.
            self.handle(Input::Tick)?;
            self.handle(Input::Tick)?;
            let offered = self.offered();
            for state in [ComputeState::AskForBidAccepted, ComputeState::BidAccepted] {
                self.report(joined, &offered, state)?;
            }
            self.commit()?;
        }
        Ok(())
    }

    /// A node with room for everything.
    pub(super) fn join(&mut self) -> anyhow::Result<Joined> {
        let node = NodeId::from_uuid(Uuid::from_u128(7));
        let request: SessionRequest = fleet::record(1e9);
        let answer = self.handle(Input::Join { node, request: Box::new(request) })?;
        let Answer::Joined { session, .. } = answer else { bail!("{answer:?}") };
        Ok(Joined { node, session })
    }

    /// Submits jobs of one execution and takes them together through these states, with a commit for
    /// the submissions and for each state. Returns how long the store took.
    pub(super) fn lives(
        &mut self,
        joined: Joined,
        jobs: u64,
        states: &[ComputeState],
    ) -> anyhow::Result<Duration> {
        for number in 0..jobs {
            self.submit(number, 1)?;
        }
        let executions = self.offered();
        ensure!(executions.len() as u64 == jobs, "{} of {jobs} were placed", executions.len());
        let mut took = self.commit()?;
        for state in states {
            self.report(joined, &executions, *state)?;
            took += self.commit()?;
        }
        Ok(took)
    }

    /// The executions that were offered since the last commit.
    fn offered(&self) -> Vec<ExecutionId> {
        let offered = self.output.effects.iter().filter_map(|effect| match effect {
            Effect::Assign { change, .. } => Some(change.execution),
            Effect::CloseStream { .. } => None,
        });
        offered.collect()
    }

    fn report(
        &mut self,
        joined: Joined,
        executions: &[ExecutionId],
        state: ComputeState,
    ) -> anyhow::Result<()> {
        let Joined { node, session } = joined;
        let reports = executions.iter().map(|id| Report::new(*id, 1, state)).collect();
        self.handle(Input::Reports { node, session, reports })?;
        Ok(())
    }

    pub(super) fn submit(&mut self, number: u64, count: u32) -> anyhow::Result<JobId> {
        self.last_id += 0x9E37_79B9_7F4A_7C15_F39C;
        let id =
            JobId::from_uuid(Uuid::from_u128(self.last_id.wrapping_mul(0xD1B5_4A32_D192_ED03)));
        let spec = spec(number, count);
        let spec_json = serde_json::to_string(&spec)?.into();
        self.handle(Input::Submit(Box::new(Submit::new(id, spec.into(), spec_json))))?;
        Ok(id)
    }

    fn handle(&mut self, input: Input) -> anyhow::Result<Answer> {
        let now = self.clock.now(&Reading::now());
        match self.scheduler.handle(now, input, &mut self.output) {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    /// Returns how long the store took.
    pub(super) fn commit(&mut self) -> anyhow::Result<Duration> {
        let output = std::mem::take(&mut self.output);
        self.commits += 1;
        let stamp = self.clock.stamp(&Reading::now());
        let id = CommitId { term: self.term, number: self.commits };
        let write = Write::Batch {
            changes: &output.changes,
            keys: &[],
            records: &[],
            audit: &[],
            loads: &[],
        };
        let begin = Instant::now();
        self.store.commit(&Commit { id, stamp, write }).context("commit a part of the seed")?;
        Ok(begin.elapsed())
    }
}

/// The specification of a small job.
pub(super) fn spec(number: u64, count: u32) -> JobSpec {
    let labels = [("team", format!("t{}", number % TEAMS)), ("number", number.to_string())];
    JobSpec {
        name: format!("seeded-{number}"),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        count,
        max_running: 0,
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        max_failed: 0,
        concurrency_groups: Vec::new(),
        on_conflict: api_types::job::OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task::new("main", EngineType::Noop)],
    }
}
