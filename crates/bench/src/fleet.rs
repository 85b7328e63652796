//! A fleet of simulated agents at rest, and one node that works a long queue off.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use api_client::{Client, REQUEST_TIMEOUT};
use api_types::NodeId;
use api_types::execution::{ComputeState, DesiredState};
use api_types::protocol::{AssignmentLine, Report, ReportBatch};
use futures_util::StreamExt;
use testbed::fleet::{CPU_PER_TASK, Fleet, FleetSpec, held, record};
use testbed::harness::{ClusterSpec, eventually_within};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::measure::{Measure, Target, millis};
use super::process::{anonymous_bytes, cpu_time};
use super::scale::Scale;

const EXECUTIONS_PER_AGENT: u32 = 100;
const SECONDS_MEASURED: u64 = 20;
const TIMEOUT: Duration = Duration::from_secs(300);

/// The start of the fleet leaves a thousand idle connections, which are closed after half a minute:
/// that is not a steady state.
const SETTLING: Duration = Duration::from_secs(40);

/// The default lease when steady CPU was first measured. A shorter one means more heartbeats, so only
/// a row with this one can be compared with rows of that time.
const FORMER_LEASE_SECONDS: u32 = 30;

pub(super) async fn measure(scale: Scale) -> anyhow::Result<Vec<Measure>> {
    let mut rows = at_rest(ClusterSpec::new(), scale, "").await?;
    let lease = FORMER_LEASE_SECONDS.to_string();
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", &lease);
    rows.extend(at_rest(spec, scale, &format!(", a lease of {lease} s")).await?);
    Ok(rows)
}

/// The cost of the heartbeats of a fleet whose tasks just run.
async fn at_rest(spec: ClusterSpec, scale: Scale, with: &str) -> anyhow::Result<Vec<Measure>> {
    let cluster = spec.start_without_agents().await;
    let client = cluster.client().clone();
    let (agents, tasks_per_agent) = (scale.agents, EXECUTIONS_PER_AGENT);
    let spec = FleetSpec { agents, tasks_per_agent, ..FleetSpec::default() };
    let mut fleet = Fleet::start(&client, spec)?;
    let expected = u64::from(scale.agents) * u64::from(EXECUTIONS_PER_AGENT);
    for _ in 0..expected / 1000 {
        cluster.submit(&held(1000)).await;
    }
    eventually_within(TIMEOUT, &format!("{expected} executions run"), async || {
        match fleet.statistics.running.load(Ordering::Relaxed) {
            running if running >= expected => Ok(()),
            running => Err(format!("{running} run")),
        }
    })
    .await;
    tokio::time::sleep(SETTLING).await;
    let pid = cluster.orchestrator.pid().context("it runs")?;
    let (before, held) = (cpu_time(pid)?, anonymous_bytes(pid)?);
    let heartbeats_before = fleet.statistics.heartbeats.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(SECONDS_MEASURED)).await;
    let used = cpu_time(pid)?.saturating_sub(before);
    let heartbeats = fleet.statistics.heartbeats.load(Ordering::Relaxed) - heartbeats_before;
    let grown = i128::from(anonymous_bytes(pid)?) - i128::from(held);
    fleet.check()?;
    // Nothing else would bring an execution's usage here before its end.
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let requests = fleet.statistics.usage_requests.load(Ordering::Relaxed) as f64;
    let slowest = Duration::from_micros(fleet.statistics.slowest_us.load(Ordering::Relaxed));
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let late = fleet.statistics.late.load(Ordering::Relaxed) as f64;
    let of = format!("{} agents, {expected} live executions{with}", scale.agents);
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
        Measure::new(
            format!("requests for usage while no client reads it, {of}"),
            (requests, ""),
            Target::AtMost(0.0),
            format!("the orchestrator grew by {} kB in {SECONDS_MEASURED} s", grown / 1000),
        ),
    ])
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
                vec![Report::new(id, 1, ComputeState::AskForBidAccepted)]
            }
            DesiredState::Running => {
                ended = Some(Instant::now());
                let states = [ComputeState::BidAccepted, ComputeState::Completed];
                (2..)
                    .zip(states)
                    .map(|(sequence, state)| Report::new(id, sequence, state))
                    .collect()
            }
            DesiredState::Stopped => continue,
        };
        client.report(node, &ReportBatch { session, reports }, REQUEST_TIMEOUT).await?;
    }
    bail!("the stream ended")
}
