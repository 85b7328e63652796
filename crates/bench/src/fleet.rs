//! Simulated agents: the real protocol over real sockets in one process, without running tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api_client::Client;
use api_types::engine::EngineType;
use api_types::execution::{ComputeState, DesiredState};
use api_types::node::ComputeNodeInfo;
use api_types::protocol::{
    Assignment, AssignmentLine, FailureCause, Heartbeat, MAX_REPORTS_PER_BATCH, Report,
    ReportBatch, SessionRequest,
};
use api_types::quantity::Capacity;
use api_types::version::VersionRecord;
use api_types::{ExecutionId, NodeId};
use futures_util::{FutureExt, StreamExt};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::Scale;
use super::measure::{Measure, Target, millis};
use super::process::cpu_time;
use testbed::harness::{ClusterSpec, eventually_within, noop};

const EXECUTIONS_PER_AGENT: u64 = 100;
const SECONDS_MEASURED: u64 = 20;
const TIMEOUT: Duration = Duration::from_secs(300);

/// CPU of a task without a request on these agents.
const CPU_PER_TASK: f64 = 0.5;

/// Statistics of all simulated agents.
#[derive(Default)]
struct Statistics {
    running: AtomicU64,
    heartbeats: AtomicU64,
    late: AtomicU64,
    slowest_us: AtomicU64,
}

/// Simulated agents; dropping the fleet ends them.
struct Fleet {
    statistics: Arc<Statistics>,
    agents: JoinSet<anyhow::Result<()>>,
}

/// The record of a node with this many cores.
pub(super) fn record(cpu: f64) -> SessionRequest {
    let capacity = Capacity { cpu, memory: 1 << 60, disk: 1 << 60, gpu: 0 };
    SessionRequest {
        addrs: Vec::new(),
        labels: std::collections::BTreeMap::new(),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Noop],
            max_capacity: capacity,
            max_job_requirements: capacity,
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity { cpu: CPU_PER_TASK, memory: 1 << 20, disk: 0, gpu: 0 },
        service_version: VersionRecord::default(),
    }
}

pub(super) fn report(id: ExecutionId, sequence: u64, compute_state: ComputeState) -> Report {
    Report {
        execution_id: id,
        sequence,
        compute_state,
        process_ended: false,
        message: String::new(),
        cause: FailureCause::Task,
        run_output: None,
        published_result: None,
        tail: None,
        usage: None,
    }
}

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let cluster = ClusterSpec::new().start_without_agents().await;
    let client = cluster.client().clone();
    let fleet = Fleet::start(&client, scale.agents);
    let expected = u64::from(scale.agents) * EXECUTIONS_PER_AGENT;
    let mut job = noop();
    job["Count"] = json!(1000);
    for _ in 0..expected / 1000 {
        cluster.submit(&job).await;
    }
    eventually_within(TIMEOUT, &format!("{expected} executions run"), async || {
        match fleet.statistics.running.load(Ordering::Relaxed) {
            running if running >= expected => Ok(()),
            running => Err(format!("{running} run")),
        }
    })
    .await;
    let pid = cluster.orchestrator.pid().context("it runs")?;
    let before = cpu_time(pid)?;
    let heartbeats_before = fleet.statistics.heartbeats.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(SECONDS_MEASURED)).await;
    let used = cpu_time(pid)?.saturating_sub(before);
    let heartbeats = fleet.statistics.heartbeats.load(Ordering::Relaxed) - heartbeats_before;
    if fleet.agents.len() != scale.agents as usize {
        bail!("an agent has lost its session");
    }
    let slowest = Duration::from_micros(fleet.statistics.slowest_us.load(Ordering::Relaxed));
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let late = fleet.statistics.late.load(Ordering::Relaxed) as f64;
    let of = format!("{} agents, {expected} live executions", scale.agents);
    Ok(vec![
        Measure::new(
            format!("steady CPU, {of}"),
            (used.as_secs_f64() / Duration::from_secs(SECONDS_MEASURED).as_secs_f64() * 100.0, "%"),
            Target::AtMost(10.0),
            format!("of one core; {heartbeats} heartbeats in {SECONDS_MEASURED} s"),
        ),
        Measure::new(
            format!("heartbeats that were late, {of}"),
            (late, ""),
            Target::AtMost(0.0),
            format!("slowest response {:.0} ms", millis(slowest)),
        ),
    ])
}

// === impl Fleet ===

impl Fleet {
    fn start(client: &Client, count: u32) -> Self {
        let statistics = Arc::new(Statistics::default());
        let mut agents = JoinSet::new();
        for number in 0..count {
            let (client, statistics) = (client.clone(), Arc::clone(&statistics));
            agents.spawn(async move { hold(&client, number, &statistics).await });
        }
        Self { statistics, agents }
    }
}

/// Accepts every offer, and keeps all executions running.
async fn hold(client: &Client, number: u32, statistics: &Statistics) -> anyhow::Result<()> {
    let node = NodeId::from_uuid(Uuid::from_u128(u128::from(number) + (1 << 100)));
    #[expect(clippy::cast_precision_loss, reason = "a hundred")]
    let cpu = EXECUTIONS_PER_AGENT as f64 * CPU_PER_TASK;
    let answer = client.join(node, &record(cpu)).await?;
    let session = answer.session;
    let interval = Duration::from_secs(answer.heartbeat_seconds.max(1));
    let mut lines = client.assignments(node, session).await?;
    // Agents that join at the same time would always renew at the same time.
    let first = tokio::time::Instant::now() + interval.mul_f64(f64::from(number % 97) / 97.0);
    let mut beats = tokio::time::interval_at(first, interval);
    loop {
        tokio::select! {
            due = beats.tick() => {
                let heartbeat = Heartbeat {
                    session,
                    used_capacity: Capacity::default(),
                    running_executions: 0,
                    enqueued_executions: 0,
                    stalled_millis: 0,
                };
                client.heartbeat(node, &heartbeat, TIMEOUT).await?;
                let took = due.elapsed();
                statistics.heartbeats.fetch_add(1, Ordering::Relaxed);
                let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
                statistics.slowest_us.fetch_max(micros, Ordering::Relaxed);
                statistics.late.fetch_add(u64::from(took > interval), Ordering::Relaxed);
            }
            line = lines.next() => {
                let mut reports = Vec::new();
                let mut next = line;
                loop {
                    let line = next.context("the stream ended")??;
                    reports.extend(reaction(&line, statistics));
                    match lines.next().now_or_never() {
                        Some(line) if reports.len() < MAX_REPORTS_PER_BATCH => next = line,
                        _ => break,
                    }
                }
                if !reports.is_empty() {
                    client.report(node, &ReportBatch { session, reports }).await?;
                }
            }
        }
    }
}

fn reaction(line: &AssignmentLine, statistics: &Statistics) -> Option<Report> {
    let AssignmentLine::Assignment(assignment) = line else { return None };
    let Assignment { execution_id, desired_state, .. } = &**assignment;
    match desired_state {
        DesiredState::Pending => Some(report(*execution_id, 1, ComputeState::AskForBidAccepted)),
        DesiredState::Running => {
            statistics.running.fetch_add(1, Ordering::Relaxed);
            Some(report(*execution_id, 2, ComputeState::BidAccepted))
        }
        DesiredState::Stopped => None,
    }
}

/// A node with capacity for one task that ends each task immediately; sends the time from each
/// final report to the next offer.
pub(super) async fn one_at_a_time(
    client: &Client,
    gaps: mpsc::Sender<Duration>,
) -> anyhow::Result<()> {
    let node = NodeId::from_uuid(Uuid::from_u128(1 << 99));
    let session = client.join(node, &record(CPU_PER_TASK)).await?.session;
    let mut lines = client.assignments(node, session).await?;
    let mut ended: Option<Instant> = None;
    while let Some(line) = lines.next().await {
        let AssignmentLine::Assignment(assignment) = line? else { continue };
        let id = assignment.execution_id;
        let reports = match assignment.desired_state {
            DesiredState::Pending => {
                if let Some(ended) = ended.take()
                    && gaps.send(ended.elapsed()).await.is_err()
                {
                    return Ok(());
                }
                vec![report(id, 1, ComputeState::AskForBidAccepted)]
            }
            DesiredState::Running => {
                ended = Some(Instant::now());
                let states = [ComputeState::BidAccepted, ComputeState::Completed];
                (2..).zip(states).map(|(sequence, state)| report(id, sequence, state)).collect()
            }
            DesiredState::Stopped => continue,
        };
        client.report(node, &ReportBatch { session, reports }).await?;
    }
    bail!("the stream ended")
}
