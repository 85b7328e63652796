//! Changes of the orchestrator's wall clock during a restart: every deadline is still met on time.

use std::time::{Duration, Instant};

use api_client::HistoryQuery;
use api_types::job::JobStateType;
use api_types::node::Connection;
use api_types::{JobId, NodeId};
use failpoint::WALL_CLOCK_OFFSET_VARIABLE;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

pub(crate) const LEASE: Duration = Duration::from_secs(3);
const DELAY: Duration = Duration::from_secs(8);
const QUEUE: Duration = Duration::from_secs(11);
const TOTAL: Duration = Duration::from_secs(14);

/// How early may seem what is on time, since the test learns of a beginning after it.
pub(crate) const EARLY: Duration = Duration::from_secs(2);

/// How late it may come on a machine that is busy; a clock that is a day wrong makes it a day.
pub(crate) const LATE: Duration = Duration::from_secs(15);

const DAY_SECONDS: &str = "86400";

/// Jobs that wait for something when the clocks change.
pub(crate) struct Waiting {
    /// It runs until its `TotalTimeout`.
    bounded: JobId,
    /// Its first run has failed, and the second one is due.
    retried: JobId,
    /// No node is good enough for it.
    queued: JobId,
    submitted: Instant,
    failed: Instant,
}

// === impl Waiting ===

impl Waiting {
    pub(crate) async fn submit(cluster: &Cluster) -> Self {
        let submitted = Instant::now();
        let mut bounded = batch(&cluster.image, &["sleep", "600"]);
        bounded["Tasks"][0]["Timeouts"] = json!({ "TotalTimeout": TOTAL.as_secs() });
        let bounded = cluster.submit(&bounded).await;
        let queued = cluster.submit(&never_placed(&cluster.image, QUEUE)).await;
        let mut retried = batch(&cluster.image, &["exit", "1"]);
        retried["RetryPolicy"] = json!({ "Attempts": 2, "Delay": DELAY.as_secs() });
        let retried = cluster.submit(&retried).await;
        eventually("the first run has failed", async || {
            let executions = cluster.executions(retried).await;
            let ended = executions.iter().all(|run| run.compute_state.state_type.is_terminal());
            if ended && !executions.is_empty() { Ok(()) } else { Err(format!("{executions:?}")) }
        })
        .await;
        Self { bounded, retried, queued, submitted, failed: Instant::now() }
    }

    /// Each waits for as long as it was to.
    pub(crate) async fn end_on_time(&self, cluster: &Cluster) {
        eventually("the second run", async || match cluster.executions(self.retried).await.len() {
            2 => Ok(()),
            other => Err(format!("{other} executions")),
        })
        .await;
        on_time("the retry", self.failed, DELAY);
        fails_with(cluster, self.queued, "QueueTimeout").await;
        on_time("the end of the queued job", self.submitted, QUEUE);
        fails_with(cluster, self.bounded, "TotalTimeout").await;
        on_time("the timeout", self.submitted, TOTAL);
        for job in [self.bounded, self.retried, self.queued] {
            times_never_go_back(cluster, job).await;
        }
    }
}

#[tokio::test]
async fn a_clock_that_was_a_day_ahead_and_is_set_right_delays_nothing() {
    all_comes_on_time(DAY_SECONDS, "0").await;
}

#[tokio::test]
async fn a_clock_that_is_set_a_day_ahead_fires_nothing_early() {
    all_comes_on_time("0", DAY_SECONDS).await;
}

/// Restarts the orchestrator; its wall clock is `before` seconds ahead first, and `after` seconds
/// then.
async fn all_comes_on_time(before: &str, after: &str) {
    let spec = ClusterSpec::new()
        .setting("ORCHESTRATOR_NODE_TTL", &LEASE.as_secs().to_string())
        .setting(WALL_CLOCK_OFFSET_VARIABLE, before)
        .agent(AgentSpec::new());
    let Some(mut cluster) = spec.start().await else { return };
    cluster.add_agent(&AgentSpec::new().engines("noop")).await;
    let waiting = Waiting::submit(&cluster).await;

    let (well, silent) = (cluster.agents[0].node_id(), cluster.agents[1].node_id());
    cluster.agents[1].kill();
    cluster.orchestrator.kill();
    cluster.orchestrator.set_variable(WALL_CLOCK_OFFSET_VARIABLE, after);
    let restarted = Instant::now();
    cluster.orchestrator.restart().await;

    is_lost(&cluster, silent).await;
    on_time("the lease", restarted, LEASE);
    assert_eq!(connection(&cluster, well).await, Connection::Connected);
    waiting.end_on_time(&cluster).await;
}

/// A job that waits this long for a node that does not exist.
pub(crate) fn never_placed(image: &str, queue_timeout: Duration) -> Value {
    let mut job = batch(image, &["exit", "0"]);
    job["Constraints"] = json!([{ "Key": "exists", "Operator": "=", "Values": ["never"] }]);
    job["Tasks"][0]["Timeouts"] = json!({ "QueueTimeout": queue_timeout.as_secs() });
    job
}

pub(crate) async fn fails_with(cluster: &Cluster, job: JobId, reason: &str) {
    let job = cluster.wait_for_job(job, JobStateType::Failed).await;
    assert!(job.state.message.contains(reason), "{}", job.state.message);
}

pub(crate) fn on_time(what: &str, since: Instant, expected: Duration) {
    let took = since.elapsed();
    assert!(expected <= took + EARLY, "{what} came after {took:?}, and {expected:?} was due");
    assert!(took <= expected + LATE, "{what} came after {took:?}, and {expected:?} was due");
}

pub(crate) async fn is_lost(cluster: &Cluster, node: NodeId) {
    eventually("the silent node is lost", async || match connection(cluster, node).await {
        Connection::Disconnected => Ok(()),
        Connection::Connected => Err("it is connected".to_owned()),
    })
    .await;
}

pub(crate) async fn connection(cluster: &Cluster, node: NodeId) -> Connection {
    cluster.client().describe_node(node).await.expect("the node is known").connection
}

pub(crate) async fn times_never_go_back(cluster: &Cluster, job: JobId) {
    let history = cluster.history(job, &HistoryQuery::default()).await;
    let times: Vec<_> = history.iter().map(|event| event.time.as_str()).collect();
    assert!(times.len() > 2 && times.is_sorted(), "{times:?}");
}
