//! Simulated agents: the real protocol over real sockets in one process, without running tasks.
//!
//! An agent keeps the executions of a job that is [`held`] running, and completes every other one as
//! soon as the orchestrator requests the run. As in a real agent, heartbeats have a thread and
//! connections of their own, so that they wait for nothing else.
//!
//! Rejected: processes of real agents, of which no test machine holds a thousand.

mod printed;

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use api_client::{Client, REQUEST_TIMEOUT};
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::node::ComputeNodeInfo;
use api_types::protocol::{
    Assignment, AssignmentLine, Heartbeat, MAX_REPORTS_PER_BATCH, Report, ReportBatch,
    SessionRequest,
};
use api_types::quantity::Capacity;
use api_types::version::VersionRecord;
use api_types::{ExecutionId, NodeId};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::harness::noop;

/// Longer than any response takes, so that a slow one is seen as slow and not as missing.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Priority of the heartbeats, above everything else that the load test does.
const PRIORITY: i32 = -10;

/// Pause before a heartbeat that failed is sent again.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// CPU of a task without a request on these agents.
pub const CPU_PER_TASK: f64 = 0.5;

const HELD: &str = "held";

/// Agents that join at the same time spread their heartbeats over this many parts of the interval.
const PHASES: u32 = 97;

/// How many agents there are, for how many tasks each has capacity, and what each task prints.
#[derive(Debug, Clone, Copy, Default)]
pub struct FleetSpec {
    pub agents: u32,
    pub tasks_per_agent: u32,
    pub lines_per_task: u32,
}

/// Statistics of all simulated agents.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Executions of held jobs whose run was requested.
    pub running: AtomicU64,
    /// Executions of other jobs whose completion was acknowledged.
    pub completed: AtomicU64,
    pub heartbeats: AtomicU64,
    /// Heartbeats that failed and were sent again, with the error in the log of the test.
    pub failed: AtomicU64,
    /// Heartbeats whose response came after the next one was due.
    pub late: AtomicU64,
    /// The longest time from when a heartbeat was due to its response.
    pub slowest_us: AtomicU64,
    /// Requests for what executions use.
    pub usage_requests: AtomicU64,
    /// For how long each agent sent no heartbeat at most.
    silences: Mutex<BTreeMap<NodeId, Duration>>,
}

/// Simulated agents; dropping the fleet ends them.
#[derive(Debug)]
pub struct Fleet {
    pub statistics: Arc<Statistics>,
    agents: JoinSet<anyhow::Result<()>>,
}

/// A session whose lease is to be renewed.
struct Joined {
    node: NodeId,
    session: u64,
    interval: Duration,
    first: Duration,
}

/// A job whose executions the fleet keeps running.
pub fn held(count: u64) -> Value {
    let mut job = noop();
    job["Name"] = json!(HELD);
    job["Count"] = json!(count);
    job
}

/// The record of a node with this many cores.
pub fn record(cpu: f64) -> SessionRequest {
    let capacity = Capacity { cpu, memory: 1 << 60, disk: 1 << 60, gpu: 0 };
    SessionRequest {
        name: String::new(),
        addrs: Vec::new(),
        labels: BTreeMap::new(),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Noop],
            max_capacity: capacity,
            max_job_requirements: capacity,
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity { cpu: CPU_PER_TASK, memory: 1 << 20, disk: 0, gpu: 0 },
        service_version: VersionRecord::default(),
        probes: false,
        process: None,
    }
}

// === impl Statistics ===

impl Statistics {
    /// For how long the agent sent no heartbeat at most: where a machine is short of CPU, that is
    /// no fault of the orchestrator.
    pub fn longest_silence(&self, node: NodeId) -> Duration {
        self.silences().get(&node).copied().unwrap_or_default()
    }

    fn was_silent(&self, node: NodeId, silence: Duration) {
        let mut silences = self.silences();
        let longest = silences.entry(node).or_default();
        *longest = silence.max(*longest);
    }

    fn silences(&self) -> MutexGuard<'_, BTreeMap<NodeId, Duration>> {
        self.silences.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Fleet ===

impl Fleet {
    /// Starts the agents; they join immediately.
    pub fn start(client: &Client, spec: FleetSpec) -> anyhow::Result<Self> {
        let statistics = Arc::new(Statistics::default());
        let (sender, joined) = mpsc::unbounded_channel();
        let (of_its_own, counted) = (Client::new(client.base_url())?, Arc::clone(&statistics));
        std::thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(move || renew_all(&of_its_own, joined, &counted))?;
        let mut agents = JoinSet::new();
        for number in 0..spec.agents {
            let (client, statistics) = (client.clone(), Arc::clone(&statistics));
            let sender = sender.clone();
            let agent = async move {
                let (short, streams) = (HashSet::new(), JoinSet::new());
                let mut agent = SimulatedAgent { client, statistics, short, streams };
                agent.run(number, spec, &sender).await
            };
            agents.spawn(agent);
        }
        Ok(Self { statistics, agents })
    }

    /// The IDs of the nodes.
    pub fn nodes(spec: FleetSpec) -> impl Iterator<Item = NodeId> {
        (0..spec.agents).map(node_id)
    }

    /// Fails if an agent has lost its session.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.agents.try_join_next() {
            None => Ok(()),
            Some(ended) => ended?.context("an agent has lost its session"),
        }
    }
}

fn node_id(number: u32) -> NodeId {
    NodeId::from_uuid(Uuid::from_u128(u128::from(number) + (1 << 100)))
}

/// Renews the leases of all agents until the fleet is gone.
fn renew_all(
    client: &Client,
    mut joined: mpsc::UnboundedReceiver<Joined>,
    statistics: &Arc<Statistics>,
) {
    // Each real agent has its own machine; without the privilege, it is as busy as this one.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a test may fail without a runtime").block_on(async {
        let mut renewing = JoinSet::new();
        while let Some(session) = joined.recv().await {
            renewing.spawn(renew(client.clone(), session, Arc::clone(statistics)));
        }
    });
}

async fn renew(client: Client, joined: Joined, statistics: Arc<Statistics>) {
    let Joined { node, session, interval, first } = joined;
    let heartbeat = Heartbeat {
        session,
        used_capacity: Capacity::default(),
        running_executions: 0,
        enqueued_executions: 0,
        stalled_millis: 0,
        lease_seconds: 0,
        probed: None,
    };
    let mut beats = tokio::time::interval_at(tokio::time::Instant::now() + first, interval);
    let mut sent = Instant::now();
    loop {
        let due = beats.tick().await;
        statistics.was_silent(node, sent.elapsed());
        sent = Instant::now();
        // An idle connection that the server closes may be one that is just used again.
        while let Err(error) = client.heartbeat(node, &heartbeat, TIMEOUT).await {
            statistics.failed.fetch_add(1, Ordering::Relaxed);
            eprintln!("a heartbeat of {node} failed: {error}");
            if !error.is_transient() {
                return;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
        let took = due.elapsed();
        statistics.heartbeats.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        statistics.slowest_us.fetch_max(micros, Ordering::Relaxed);
        statistics.late.fetch_add(u64::from(took > interval), Ordering::Relaxed);
    }
}

struct SimulatedAgent {
    client: Client,
    statistics: Arc<Statistics>,
    /// Accepted executions that complete immediately.
    short: HashSet<ExecutionId>,
    /// Requested output that is being sent.
    streams: JoinSet<()>,
}

// === impl SimulatedAgent ===

impl SimulatedAgent {
    async fn run(
        &mut self,
        number: u32,
        spec: FleetSpec,
        joined: &mpsc::UnboundedSender<Joined>,
    ) -> anyhow::Result<()> {
        let node = node_id(number);
        let cpu = f64::from(spec.tasks_per_agent) * CPU_PER_TASK;
        let answer = self.client.join(node, &record(cpu)).await?;
        let session = answer.session;
        let interval = Duration::from_secs(answer.heartbeat_seconds.max(1));
        let first = interval.mul_f64(f64::from(number % PHASES) / f64::from(PHASES));
        joined.send(Joined { node, session, interval, first })?;
        let mut lines = self.client.assignments(node, session).await?;
        loop {
            let mut reports = Vec::new();
            let mut next = lines.next().await;
            loop {
                let line = next.context("the stream ended")??;
                self.answer(node, &line, spec.lines_per_task);
                reports.extend(self.reaction(&line));
                // A reaction is two reports at most.
                if reports.len() + 2 > MAX_REPORTS_PER_BATCH {
                    break;
                }
                match lines.next().now_or_never() {
                    Some(line) => next = line,
                    None => break,
                }
            }
            if reports.is_empty() {
                continue;
            }
            let completed = |report: &&Report| report.compute_state == ComputeState::Completed;
            let completed = reports.iter().filter(completed).count() as u64;
            self.client.report(node, &ReportBatch { session, reports }, REQUEST_TIMEOUT).await?;
            self.statistics.completed.fetch_add(completed, Ordering::Relaxed);
        }
    }

    /// Sends the output that is requested.
    fn answer(&mut self, node: NodeId, line: &AssignmentLine, lines: u32) {
        while self.streams.try_join_next().is_some() {}
        match line {
            AssignmentLine::Stream(request) => {
                let (client, stream) = (self.client.clone(), request.stream_id);
                let frames = printed::frames(request.execution_id, lines);
                self.streams.spawn(async move {
                    if let Err(error) = client.answer_stream(node, stream, frames).await {
                        eprintln!("cannot send output of {node}: {error}");
                    }
                });
            }
            AssignmentLine::Usage(_) => {
                self.statistics.usage_requests.fetch_add(1, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn reaction(&mut self, line: &AssignmentLine) -> Vec<Report> {
        let AssignmentLine::Assignment(assignment) = line else { return Vec::new() };
        let Assignment { execution_id: id, desired_state, work, .. } = &**assignment;
        match desired_state {
            DesiredState::Pending => {
                if work.as_ref().is_some_and(|work| work.job_name != HELD) {
                    self.short.insert(*id);
                }
                vec![Report::new(*id, 1, ComputeState::AskForBidAccepted)]
            }
            DesiredState::Running if self.short.remove(id) => vec![
                Report::new(*id, 2, ComputeState::BidAccepted),
                Report::new(*id, 3, ComputeState::Completed),
            ],
            DesiredState::Running => {
                self.statistics.running.fetch_add(1, Ordering::Relaxed);
                vec![Report::new(*id, 2, ComputeState::BidAccepted)]
            }
            DesiredState::Stopped => vec![Report::new(*id, 3, ComputeState::Cancelled)],
        }
    }
}
