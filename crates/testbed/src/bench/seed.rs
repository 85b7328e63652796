//! A state database of a given size, made by the engine and the store themselves, without HTTP:
//! a million submissions over sockets would take longer than all that is measured with them.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use api_types::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use api_types::execution::ComputeState;
use api_types::job::{JobSpec, JobType, NetworkSpec, RetryPolicy, Task, TaskResources, Timeouts};
use api_types::protocol::{FailureCause, Report, SessionRequest};
use api_types::{JobId, NodeId};
use orchestrator::clock;
use orchestrator::engine::change::Effect;
use orchestrator::engine::input::{Answer, Input, Submit};
use orchestrator::engine::mint::Mint;
use orchestrator::engine::{Engine, Output, Restore, Settings};
use orchestrator::store::Store;
use orchestrator::store::sqlite::{self, SqliteStore};
use uuid::Uuid;

use super::fleet;

/// Inputs of one commit.
const BATCH: u64 = 1000;

/// Values of the label `team`, so that a selector finds some of them.
pub(super) const TEAMS: u64 = 100;

pub(super) struct Seed {
    engine: Engine,
    store: SqliteStore,
    commits: u64,
    output: Output,
    last_id: u128,
}

// === impl Seed ===

impl Seed {
    pub(super) fn open(directory: &Path) -> anyhow::Result<Self> {
        let (mut store, _) = sqlite::open(directory)?;
        let mut restore = Restore::new(Settings::default(), Mint::from_seed([1; 32]));
        let live = store.load(&mut |job| restore.job(job))?;
        let engine = restore.finish(live, clock::now())?;
        let commits = store.last_commit()?;
        Ok(Self { engine, store, commits, output: Output::default(), last_id: 1 << 96 })
    }

    /// Closes the database. What the system would still have to write of it, it would write while
    /// something is measured.
    pub(super) fn settle(self) {
        drop(self);
        rustix::fs::sync();
    }

    /// Jobs that wait, since there is no node.
    pub(super) fn queued(&mut self, jobs: u64) -> anyhow::Result<()> {
        for number in 0..jobs {
            self.submit(number, 1)?;
            if number % BATCH == 0 {
                self.commit()?;
            }
        }
        self.commit()
    }

    /// Jobs that are over; answers some of their ids.
    pub(super) fn ended(&mut self, jobs: u64) -> anyhow::Result<Vec<JobId>> {
        /// Spread over all of them.
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

    /// Executions that run on one node.
    pub(super) fn live(&mut self, executions: u32) -> anyhow::Result<()> {
        const COUNT: u32 = 1000;
        let node = NodeId::from_uuid(Uuid::from_u128(7));
        let request: SessionRequest = fleet::record(1e9);
        let answer = self.handle(Input::Join { node, request: Box::new(request) })?;
        let Answer::Joined { session, .. } = answer else { bail!("{answer:?}") };
        for number in 0..u64::from(executions / COUNT) {
            self.submit(number, COUNT)?;
            // What one turn does not place the next one does.
            self.handle(Input::Tick)?;
            self.handle(Input::Tick)?;
            let offered: Vec<_> = self
                .output
                .effects
                .drain(..)
                .filter_map(|effect| match effect {
                    Effect::Assign { change, .. } => Some(change.execution),
                    Effect::CloseStream { .. } => None,
                })
                .collect();
            for state in [ComputeState::AskForBidAccepted, ComputeState::BidAccepted] {
                let report = |execution_id| Report {
                    execution_id,
                    sequence: 1,
                    compute_state: state,
                    message: String::new(),
                    cause: FailureCause::Task,
                    run_output: None,
                    published_result: None,
                };
                let reports = offered.iter().copied().map(report).collect();
                self.handle(Input::Reports { node, session, reports })?;
            }
            self.commit()?;
        }
        Ok(())
    }

    fn submit(&mut self, number: u64, count: u32) -> anyhow::Result<JobId> {
        self.last_id += 0x9E37_79B9_7F4A_7C15_F39C;
        let id =
            JobId::from_uuid(Uuid::from_u128(self.last_id.wrapping_mul(0xD1B5_4A32_D192_ED03)));
        let spec = spec(number, count);
        let spec_json = serde_json::to_string(&spec)?.into();
        self.handle(Input::Submit(Box::new(Submit { id, spec: spec.into(), spec_json })))?;
        Ok(id)
    }

    fn handle(&mut self, input: Input) -> anyhow::Result<Answer> {
        match self.engine.handle(clock::now(), input, &mut self.output) {
            Answer::Refused(refusal) => Err(refusal.into()),
            answer => Ok(answer),
        }
    }

    fn commit(&mut self) -> anyhow::Result<()> {
        let output = std::mem::take(&mut self.output);
        self.commits += 1;
        self.store.commit(self.commits, &output.changes, &[]).context("commit a part of the seed")
    }
}

/// A job as a small one is kept.
pub(super) fn spec(number: u64, count: u32) -> JobSpec {
    let labels = [("team", format!("t{}", number % TEAMS)), ("number", number.to_string())];
    JobSpec {
        name: format!("seeded-{number}"),
        namespace: "default".to_owned(),
        job_type: JobType::Batch,
        priority: 50,
        count,
        constraints: Vec::new(),
        meta: BTreeMap::new(),
        labels: labels.map(|(key, value)| (key.to_owned(), value)).into(),
        retry_policy: RetryPolicy::default_for(JobType::Batch),
        tasks: vec![Task {
            name: "main".to_owned(),
            engine: EngineSpec { engine_type: EngineType::Noop, params: Params::new() },
            publisher: PublisherSpec::default(),
            env: BTreeMap::new(),
            meta: BTreeMap::new(),
            input_sources: Vec::new(),
            result_paths: Vec::new(),
            resources: TaskResources::default(),
            network: NetworkSpec { network_type: NetworkType::None, domains: Vec::new() },
            timeouts: Timeouts::default(),
        }],
    }
}
