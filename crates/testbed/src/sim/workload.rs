//! What clients ask for: jobs of every type, stops, and what operators do to nodes.

use std::collections::BTreeMap;
use std::time::Duration;

use api_types::JobId;
use api_types::engine::{EngineSpec, EngineType, NetworkType, Params, PublisherSpec};
use api_types::job::{
    Constraint, JobSpec, JobType, NetworkSpec, RetryPolicy, Task, TaskResources, Timeouts,
};
use api_types::node::{ComputeNodeInfo, NodeAction};
use api_types::protocol::SessionRequest;
use api_types::quantity::Capacity;
use api_types::version::VersionRecord;
use orchestrator::engine::input::Submit;
use orchestrator::store::memory::spec_json;

use super::network::RequestBody;
use crate::random::Random;

/// A request that a client repeats until it is answered.
pub(super) struct Wish {
    pub(super) body: RequestBody,
    pub(super) state: WishState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WishState {
    Open,
    /// Whoever gets the answer may rely on it.
    Answered {
        job: Option<JobId>,
    },
}

/// What a job promises to come to by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prospect {
    Ends,
    /// Runs, or waits, until it is stopped.
    MustBeStopped,
}

pub(super) fn node_record(random: &mut Random, number: usize) -> SessionRequest {
    let cpu = random.one_of(&[1.0, 2.0, 4.0]);
    let capacity = Capacity { cpu, memory: 4_000_000_000, disk: 10_000_000_000, gpu: 0 };
    let zone = if number.is_multiple_of(2) { "a" } else { "b" };
    SessionRequest {
        addrs: Vec::new(),
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Docker],
            max_capacity: capacity,
            max_job_requirements: capacity,
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity { cpu: 0.5, memory: 100_000_000, disk: 0, gpu: 0 },
        service_version: VersionRecord::default(),
    }
}

pub(super) fn submission(random: &mut Random, id: JobId) -> (Submit, Prospect) {
    let job_type = random.one_of(&[
        JobType::Batch,
        JobType::Batch,
        JobType::Batch,
        JobType::Ops,
        JobType::Service,
        JobType::Daemon,
    ]);
    let cpu = random.one_of(&["0.25", "0.5", "1", "1", "2", "16"]);
    let zoned = random.chance(200);
    let mut constraints = Vec::new();
    if zoned {
        constraints.push(Constraint {
            key: "zone".to_owned(),
            operator: "=".to_owned(),
            values: vec![random.one_of(&["a", "b"]).to_owned()],
        });
    }
    let finite = job_type.is_finite();
    let attempts = if finite {
        u32::try_from(random.within(1..4)).expect("small")
    } else {
        u32::try_from(random.within(0..4)).expect("small")
    };
    let seconds = |random: &mut Random, chance: u64, range: std::ops::Range<u64>| {
        if random.chance(chance) { random.within(range) } else { 0 }
    };
    let timeouts = Timeouts {
        execution_timeout: seconds(random, 100, 1..10),
        queue_timeout: seconds(random, 100, 5..60),
        total_timeout: seconds(random, 50, 20..100),
    };
    let spec = JobSpec {
        name: random.one_of(&["plain", "plain", "plain", "declined"]).to_owned(),
        namespace: "default".to_owned(),
        job_type,
        priority: u32::try_from(random.within(0..101)).expect("small"),
        count: u32::try_from(random.within(1..7)).expect("small"),
        constraints,
        meta: BTreeMap::new(),
        labels: BTreeMap::new(),
        retry_policy: RetryPolicy { attempts, delay: 1, max_delay: 4 },
        tasks: vec![Task {
            name: "main".to_owned(),
            engine: EngineSpec { engine_type: EngineType::Docker, params: Params::new() },
            publisher: PublisherSpec::default(),
            env: BTreeMap::new(),
            meta: BTreeMap::new(),
            input_sources: Vec::new(),
            result_paths: Vec::new(),
            resources: TaskResources { cpu: cpu.to_owned(), ..TaskResources::default() },
            network: NetworkSpec { network_type: NetworkType::None, domains: Vec::new() },
            timeouts,
        }],
    };
    // A job that waits for room that may never come, and has no bound, is stopped at the end.
    let bounded = timeouts.queue_timeout > 0 || timeouts.total_timeout > 0;
    let fits = matches!(cpu, "0.25" | "0.5" | "1") && !zoned;
    let prospect = match finite && (fits || bounded) {
        true => Prospect::Ends,
        false => Prospect::MustBeStopped,
    };
    (Submit { id, spec_json: spec_json(&spec), spec: spec.into() }, prospect)
}

pub(super) fn node_action(random: &mut Random) -> NodeAction {
    random.one_of(&[
        NodeAction::Cordon,
        NodeAction::Uncordon,
        NodeAction::Drain,
        NodeAction::Uncordon,
    ])
}

/// How long a process runs, and how it ends.
pub(super) fn run_of_a_process(random: &mut Random) -> (Duration, i32) {
    let length = if random.chance(300) { random.millis(0..50) } else { random.millis(50..15_000) };
    (length, if random.chance(120) { 1 } else { 0 })
}
