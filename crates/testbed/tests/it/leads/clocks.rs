//! The next leader's clocks differ from the former's, or no process led for an hour: all that waits
//! for a time comes on time.

use std::time::{Duration, Instant};

use api_types::JobId;
use api_types::error::Code;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::Connection;
use failpoint::{BOOT_CLOCK_OFFSET_VARIABLE, BOOT_ID_VARIABLE, HANG, WALL_CLOCK_OFFSET_VARIABLE};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, batch, eventually};

use super::loads::LOAD;
use super::measure::served_again;
use crate::clock::{
    EARLY, LATE, LEASE, Waiting, connection, fails_with, is_lost, never_placed, on_time,
    times_never_go_back,
};

/// How long an ended job is kept.
const RETENTION: Duration = Duration::from_secs(20);

/// Interval between scans for jobs to remove.
const SCAN_EVERY: Duration = Duration::from_secs(10);

const HALF_AN_HOUR: Duration = Duration::from_mins(30);
const TWO_HOURS: Duration = Duration::from_hours(2);

/// The clocks of a machine: its boot, and how many seconds its clocks are ahead of those of this one.
#[derive(Clone, Copy)]
struct Clocks {
    boot_id: &'static str,
    boot: u32,
    wall: u32,
}

/// A machine whose clock is right.
const RIGHT: Clocks =
    Clocks { boot_id: "00000000-0000-4000-8000-00000000000a", boot: 5_000, wall: 0 };

/// A machine that started earlier, and whose clock is an hour ahead.
const AHEAD: Clocks =
    Clocks { boot_id: "00000000-0000-4000-8000-00000000000b", boot: 90_000, wall: 3_600 };

// === impl Clocks ===

impl Clocks {
    fn an_hour_later(self) -> Self {
        Self { boot: self.boot + 3_600, wall: self.wall + 3_600, ..self }
    }

    fn variables(self) -> [(&'static str, String); 3] {
        [
            (BOOT_ID_VARIABLE, self.boot_id.to_owned()),
            (BOOT_CLOCK_OFFSET_VARIABLE, self.boot.to_string()),
            (WALL_CLOCK_OFFSET_VARIABLE, self.wall.to_string()),
        ]
    }
}

/// Two orchestrators on machines with these clocks, of which the first leads, and a node with Docker.
async fn cluster(first: Clocks, second: Clocks) -> Option<Cluster> {
    let mut spec = ClusterSpec::new()
        .sharing(SharedStore::start()?, 2)
        .setting("ORCHESTRATOR_NODE_TTL", &LEASE.as_secs().to_string())
        .setting("ORCHESTRATOR_JOB_RETENTION", &RETENTION.as_secs().to_string())
        .agent(AgentSpec::new());
    for (variable, value) in first.variables() {
        spec = spec.setting(variable, &value);
    }
    let mut cluster = spec.start().await?;
    cluster.orchestrator_at_mut(1).kill();
    start_with(&mut cluster, 1, second).await;
    assert_eq!(cluster.leader().await, 0);
    Some(cluster)
}

async fn start_with(cluster: &mut Cluster, orchestrator: usize, clocks: Clocks) {
    let process = cluster.orchestrator_at_mut(orchestrator);
    for (variable, value) in clocks.variables() {
        process.set_variable(variable, &value);
    }
    process.restart().await;
}

/// Waits until the job, which ended then, is removed.
async fn removed_on_time(cluster: &Cluster, job: JobId, ended: Instant) {
    let id = job.to_string();
    eventually("the job is removed", async || match cluster.client().describe_job(&id).await {
        Err(error) if error.code() == Some(Code::JobNotFound) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    let took = ended.elapsed();
    assert!(took + EARLY >= RETENTION, "it was removed after {took:?}");
    assert!(took <= RETENTION + SCAN_EVERY + LATE, "it was removed after {took:?}");
}

/// Whether the next leader lives until it serves, or is restarted while it loads.
#[derive(PartialEq, Eq)]
enum Next {
    Serves,
    Restarts,
}

async fn all_comes_on_time(first: Clocks, second: Clocks, next: Next) {
    let Some(mut cluster) = cluster(first, second).await else { return };
    cluster.add_agent(&AgentSpec::new().engines("noop")).await;
    let kept = cluster.submit(&batch(&cluster.image, &["exit", "0"])).await;
    cluster.wait_for_job(kept, JobStateType::Completed).await;
    let ended = Instant::now();
    let waiting = Waiting::submit(&cluster).await;

    let (well, silent) = (cluster.agents[0].node_id(), cluster.agents[1].node_id());
    cluster.agents[1].kill();
    let killed = Instant::now();
    if next == Next::Restarts {
        cluster.orchestrator_at(1).failpoints().arm_always(LOAD, HANG).await;
    }
    cluster.orchestrator_at_mut(0).kill();
    if next == Next::Restarts {
        assert_eq!(cluster.next_leader(0).await, 1);
        cluster.orchestrator_at(1).failpoints().disarm(LOAD).await;
        cluster.orchestrator_at_mut(1).kill();
        cluster.orchestrator_at_mut(1).restart().await;
    }
    served_again(&cluster, killed).await;
    assert_eq!(cluster.leader().await, 1);

    is_lost(&cluster, silent).await;
    on_time("the lease", killed, LEASE);
    assert_eq!(connection(&cluster, well).await, Connection::Connected);
    waiting.end_on_time(&cluster).await;
    removed_on_time(&cluster, kept, ended).await;
}

#[tokio::test]
async fn a_next_leader_whose_clock_is_an_hour_ahead_does_nothing_early() {
    all_comes_on_time(RIGHT, AHEAD, Next::Serves).await;
}

#[tokio::test]
async fn a_next_leader_whose_clock_is_an_hour_behind_does_nothing_late() {
    all_comes_on_time(AHEAD, RIGHT, Next::Serves).await;
}

/// No commit of it says how long the lead was free.
#[tokio::test]
async fn a_next_leader_that_ends_before_its_first_commit_does_nothing_early() {
    all_comes_on_time(RIGHT, AHEAD, Next::Restarts).await;
}

/// Submits a job that runs until it is told to end, or for this long.
async fn running_for(cluster: &Cluster, total_timeout: Duration) -> JobId {
    let mut job = batch(&cluster.image, &["await"]);
    job["Tasks"][0]["Timeouts"] = json!({ "TotalTimeout": total_timeout.as_secs() });
    let job = cluster.submit(&job).await;
    cluster.wait_for_execution(job, ComputeState::BidAccepted).await;
    job
}

/// Both orchestrators are off for an hour, and this one is the first that is back.
async fn an_hour_counts_as_an_hour(back: usize) {
    let other = Clocks { wall: RIGHT.wall, ..AHEAD };
    let Some(mut cluster) = cluster(RIGHT, other).await else { return };
    let node = cluster.agents[0].node_id();
    let (over, goes_on) =
        (running_for(&cluster, HALF_AN_HOUR).await, running_for(&cluster, TWO_HOURS).await);
    let queued = cluster.submit(&never_placed(&cluster.image, HALF_AN_HOUR)).await;
    let still_queued = cluster.submit(&never_placed(&cluster.image, TWO_HOURS)).await;
    let before = cluster.execution(goes_on).await;

    for orchestrator in [0, 1] {
        cluster.orchestrator_at_mut(orchestrator).kill();
    }
    let since = Instant::now();
    for orchestrator in [back, 1 - back] {
        start_with(&mut cluster, orchestrator, [RIGHT, other][orchestrator].an_hour_later()).await;
        served_again(&cluster, since).await;
        assert_eq!(cluster.leader().await, back);
    }
    fails_with(&cluster, over, "TotalTimeout").await;
    fails_with(&cluster, queued, "QueueTimeout").await;
    on_time("what was over", since, Duration::ZERO);
    for job in [over, queued] {
        times_never_go_back(&cluster, job).await;
    }

    assert_eq!(connection(&cluster, node).await, Connection::Connected);
    cluster.wait_for_job(still_queued, JobStateType::Queued).await;
    assert_eq!(cluster.execution(goes_on).await.id, before.id);
    cluster.signal(goes_on).await;
    cluster.wait_for_job(goes_on, JobStateType::Completed).await;
    assert_eq!(cluster.execution(goes_on).await.id, before.id, "it ran once");
    times_never_go_back(&cluster, goes_on).await;
}

#[tokio::test]
async fn an_hour_without_any_orchestrator_counts_as_an_hour_for_the_former_leader() {
    an_hour_counts_as_an_hour(0).await;
}

#[tokio::test]
async fn an_hour_without_any_orchestrator_counts_as_an_hour_on_another_machine() {
    an_hour_counts_as_an_hour(1).await;
}
