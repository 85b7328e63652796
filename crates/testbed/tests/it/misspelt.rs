//! A large array with a misspelt image, next to healthy jobs.

use std::time::{Duration, Instant};

use api_client::NodeHistoryQuery;
use api_types::job::JobStateType;
use api_types::node::HealthState;
use peers::pages::{Page, Pages};
use serde_json::json;
use testbed::harness::{Cluster, ClusterSpec, batch, eventually_within};

use crate::sources::open_agent;

const NODES: usize = 5;
const GOOD_JOBS: usize = 100;

/// How much longer the good jobs may take next to the array, as a factor of the time alone and as a
/// constant: a machine that others use too is seldom steadier. What is behind a thousand failing
/// executions in a queue takes ten times as long.
const SLOWER: f64 = 1.5;
const LATER: Duration = Duration::from_secs(5);

/// The longest delay between two probes of the array: at the default of a minute it ends within
/// minutes, as each slot has five tries.
const MAX_DELAY_SECONDS: u32 = 4;

/// Some ten probes, on a busy machine.
const ENDED_WITHIN: Duration = Duration::from_secs(180);

/// Tries of an array of which each is a pull on a node.
const MAX_TRIES: usize = 60;

/// Runs the good jobs; how long they took together.
async fn good_jobs(cluster: &Cluster) -> Duration {
    let began = Instant::now();
    let mut jobs = Vec::new();
    for _ in 0..GOOD_JOBS {
        jobs.push(cluster.submit(&batch(&cluster.image, &["echo"])).await);
    }
    for id in jobs {
        cluster.wait_for_job(id, JobStateType::Completed).await;
        assert_eq!(cluster.executions(id).await.len(), 1);
    }
    began.elapsed()
}

#[tokio::test]
#[ignore = "long"]
async fn an_array_with_a_misspelt_image_delays_no_good_job_and_blames_no_node() {
    // A registry that knows no image.
    let registry = Pages::start().await;
    registry.put("/v2/", Page::default());
    let spec = (0..NODES).fold(ClusterSpec::new(), |spec, _| spec.agent(open_agent()));
    let Some(cluster) = spec.start().await else { return };
    let before = good_jobs(&cluster).await;

    let image = format!("{}/busibox:1", registry.address());
    let mut array = batch(&image, &["echo"]);
    array["Count"] = json!(1000);
    array["RetryPolicy"] = json!({ "Attempts": 1, "MaxDelay": MAX_DELAY_SECONDS });
    let array = cluster.submit(&array).await;
    let together = good_jobs(&cluster).await;
    let job = cluster.client().describe_job(array).await.expect("the array exists");
    assert!(job.state.message.contains(&image), "{:?}", job.state);
    let ended = eventually_within(ENDED_WITHIN, "the array has ended", async || {
        let job = cluster.client().describe_job(array).await.expect("the array exists");
        if job.state.state_type.is_terminal() { Ok(job) } else { Err(format!("{:?}", job.state)) }
    })
    .await;
    assert_eq!(ended.state.state_type, JobStateType::Failed);
    assert!(ended.state.message.contains(&image), "{}", ended.state.message);
    let tries = cluster.executions(array).await.len();
    assert!(tries < MAX_TRIES, "the array was tried {tries} times");

    let after = good_jobs(&cluster).await;
    eprintln!("alone {before:.1?} and {after:.1?}, with the array {together:.1?}, {tries} tries");
    assert!(together < before.max(after).mul_f64(SLOWER) + LATER, "{together:?}");
    for agent in &cluster.agents {
        let node = cluster.client().describe_node(agent.node_id()).await.expect("it is known");
        assert_eq!(node.health.state, HealthState::Healthy, "{:?}", node.health);
        let query = NodeHistoryQuery::default();
        let history = cluster.client().node_history(agent.node_id(), &query).await;
        let comments: Vec<_> =
            history.expect("it is known").history.into_iter().map(|one| one.comment).collect();
        assert_eq!(comments, ["joined for the first time"]);
    }
    cluster.no_container_left().await;
}
