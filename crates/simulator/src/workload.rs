//! The requests of clients: jobs of every type, stops, and actions on nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api_types::JobId;
use api_types::engine::EngineType;
use api_types::job::{
    Constraint, JobSpec, JobType, OnConflict, RetryPolicy, Task, TaskResources, Timeouts,
};
use api_types::node::{ComputeNodeInfo, NodeAction};
use api_types::protocol::SessionRequest;
use api_types::quantity::Capacity;
use api_types::secret::TaskSecret;
use api_types::source::ResultPath;
use api_types::version::VersionRecord;
use control_plane::records::{RecordKey, RecordKind};

use super::groups;
use super::network::RequestBody;
use super::summary::Sabotage;
use crate::random::Random;

/// A request that a client repeats until it gets a response.
pub(super) struct ClientRequest {
    pub(super) body: RequestBody,
    pub(super) state: RequestState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestState {
    Open,
    /// The client has a response, which must hold.
    Answered {
        job: Option<JobId>,
    },
}

const NAMESPACE: &str = "default";
const SECRET: &str = "db";
const SLEEP: &str = "sleep ";

/// The name of jobs that nodes decline now and then.
pub(super) const DECLINED: &str = "declined";

/// Longer than a run.
const NEVER_SECONDS: u32 = 1_000_000;

/// Finite jobs that name a secret, of a thousand.
const NAMING: u64 = 200;

/// Finite jobs that limit their live executions, of a thousand.
const LIMITED: u64 = 300;

/// How many slots of a finite job may fail.
const MAX_FAILED: [i32; 4] = [0, 0, 1, -1];

/// What a job needs of its node, as the end of its name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    Networked,
    /// With an image that may be damaged.
    Layered,
    /// No node can create its container.
    Impossible,
    /// Its runs vanish, wherever they are.
    Hostile,
}

const KINDS: [(Kind, &str); 4] = [
    (Kind::Networked, "networked"),
    (Kind::Layered, "layered"),
    (Kind::Impossible, "impossible"),
    (Kind::Hostile, "hostile"),
];

/// What is to run again.
#[derive(Debug)]
pub(super) struct Again {
    /// `None` if nothing was submitted.
    pub(super) request: Option<usize>,
    pub(super) of: JobId,
    /// The slots of which no execution completed before the job ended.
    pub(super) expected: BTreeSet<u32>,
}

/// How a job is expected to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExpectedEnd {
    Ends,
    /// Runs or waits until it is stopped.
    RunsUntilStopped,
}

pub(super) fn node_record(random: &mut Random, number: usize) -> SessionRequest {
    let cpu = random.one_of(&[1.0, 2.0, 4.0]);
    let capacity = Capacity { cpu, memory: 4_000_000_000, disk: 10_000_000_000, gpu: 0 };
    let zone = if number.is_multiple_of(2) { "a" } else { "b" };
    SessionRequest {
        name: String::new(),
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
        // An agent of an older release cannot be asked.
        probes: !number.is_multiple_of(3),
        process: None,
    }
}

/// The record of the secret that some jobs name.
pub(super) fn secret(sabotage: Option<Sabotage>) -> RecordKey {
    let kind = match sabotage {
        // Agents find it, and the scheduler is not notified.
        Some(Sabotage::ProvideSilently) => RecordKind::Key,
        _ => RecordKind::Secret,
    };
    kind.key(format!("{NAMESPACE}/{SECRET}"))
}

/// Has the job name the secret. A probe of it comes too late for the run, so that only the secret
/// itself may start it.
fn naming(spec: &mut JobSpec) {
    let path = TaskSecret::default_path(SECRET);
    let secret = TaskSecret { name: SECRET.to_owned(), path, env: String::new() };
    spec.tasks[0].secrets.push(secret);
    // What a node declines is probed after the same delay.
    "plain".clone_into(&mut spec.name);
    spec.retry_policy = RetryPolicy { attempts: 1, delay: NEVER_SECONDS, max_delay: NEVER_SECONDS };
}

fn timeouts(random: &mut Random) -> Timeouts {
    let seconds = |random: &mut Random, chance: u64, range: std::ops::Range<u64>| {
        if random.chance(chance) { random.within(range) } else { 0 }
    };
    Timeouts {
        execution_timeout: seconds(random, 100, 1..10),
        queue_timeout: seconds(random, 100, 5..60),
        total_timeout: seconds(random, 50, 20..100),
        lost_after: seconds(random, 100, 1..60),
    }
}

/// A job of any kind.
pub(super) fn job(random: &mut Random) -> (JobSpec, ExpectedEnd) {
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
    let timeouts = timeouts(random);
    // The agent reports the end of their processes, and then collects for a while.
    let result_paths = match random.chance(300) {
        true => vec![ResultPath { name: "out".to_owned(), path: "/out".to_owned() }],
        false => Vec::new(),
    };
    let name = random.one_of(&["plain", "plain", "plain", DECLINED]).to_owned();
    let priority = u32::try_from(random.within(0..101)).expect("small");
    // Without another draw, so that the rest of a seed's workload stays.
    let allowed = MAX_FAILED[priority as usize % MAX_FAILED.len()];
    let mut spec = JobSpec {
        name,
        namespace: NAMESPACE.to_owned(),
        job_type,
        priority,
        count: u32::try_from(random.within(1..7)).expect("small"),
        max_running: 0,
        constraints,
        meta: BTreeMap::new(),
        labels: BTreeMap::new(),
        retry_policy: RetryPolicy { attempts, delay: 1, max_delay: 4 },
        max_failed: if finite { allowed } else { 0 },
        concurrency_groups: Vec::new(),
        on_conflict: OnConflict::Queue,
        depends_on: Vec::new(),
        tasks: vec![Task {
            resources: TaskResources { cpu: cpu.to_owned(), ..TaskResources::default() },
            timeouts,
            result_paths,
            ..Task::new("main", EngineType::Docker)
        }],
    };
    if finite && random.chance(LIMITED) {
        spec.max_running = u32::try_from(random.within(1..4)).expect("small");
    }
    // Slots that are declined wait for a thousand seconds, and would do so one after the other.
    if finite && spec.name != DECLINED {
        groups::join(&mut spec);
    }
    if finite && random.chance(NAMING) {
        naming(&mut spec);
    }
    // A job may wait forever for capacity; without a timeout it is stopped at the end.
    let bounded = timeouts.queue_timeout > 0 || timeouts.total_timeout > 0;
    let fits = matches!(cpu, "0.25" | "0.5" | "1") && !zoned;
    let expected_end = match finite && (fits || bounded) {
        true => ExpectedEnd::Ends,
        false => ExpectedEnd::RunsUntilStopped,
    };
    (spec, expected_end)
}

/// A batch job that runs for some seconds and that any node has room for.
pub(super) fn plain(random: &mut Random, cpu: &str, priority: u32) -> JobSpec {
    let (mut spec, _) = job(random);
    "plain".clone_into(&mut spec.name);
    (spec.job_type, spec.count, spec.priority) = (JobType::Batch, 1, priority);
    spec.max_failed = 0;
    spec.constraints.clear();
    spec.max_running = 0;
    spec.concurrency_groups.clear();
    spec.on_conflict = OnConflict::Queue;
    spec.retry_policy = RetryPolicy { attempts: 3, delay: 1, max_delay: 4 };
    spec.tasks[0].secrets.clear();
    spec.tasks[0].timeouts = Timeouts::default();
    cpu.clone_into(&mut spec.tasks[0].resources.cpu);
    spec
}

/// A daemon that every node has room for at some time.
pub(super) fn daemon(random: &mut Random) -> JobSpec {
    let mut spec = plain(random, "0.25", 50);
    (spec.job_type, spec.retry_policy.attempts) = (JobType::Daemon, 0);
    spec.tasks[0].result_paths.clear();
    spec
}

pub(super) fn node_action(random: &mut Random) -> NodeAction {
    random.one_of(&[
        NodeAction::Cordon,
        NodeAction::Uncordon,
        NodeAction::Drain,
        NodeAction::Uncordon,
    ])
}

/// The name of a job whose process runs for this many seconds and succeeds.
pub(super) fn sleep(seconds: u64) -> String {
    format!("{SLEEP}{seconds}")
}

/// The same, of a job of this kind.
pub(super) fn sleep_as(seconds: u64, kind: Kind) -> String {
    let word = KINDS.iter().find(|(named, _)| *named == kind).map_or("", |(_, word)| word);
    format!("{SLEEP}{seconds} {word}")
}

pub(super) fn kind_of(job_name: &str) -> Kind {
    let is_named = |(_, word): &&(Kind, &str)| job_name.ends_with(word);
    KINDS.iter().find(is_named).map_or(Kind::Plain, |(kind, _)| *kind)
}

/// Duration and exit code of a process of the job with this name.
pub(super) fn process_run(random: &mut Random, job_name: &str) -> (Duration, i32) {
    if let Some(seconds) = job_name.strip_prefix(SLEEP) {
        let seconds = seconds.split(' ').next().unwrap_or_default();
        let seconds = seconds.parse().expect("the name of a job that sleeps has its seconds");
        return (Duration::from_secs(seconds), 0);
    }
    let length = if random.chance(300) { random.millis(0..50) } else { random.millis(50..15_000) };
    (length, if random.chance(120) { 1 } else { 0 })
}
