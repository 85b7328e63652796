//! `MaxRunning`: how many executions of a job are live at the same time.

use api_types::JobId;
use api_types::job::{JobStateType, JobType};
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

const COUNT: usize = 8;
const MOST: usize = 2;

/// The executions that have not ended. Never more than the job allows, nor more containers.
async fn live(cluster: &Cluster, job: JobId) -> Vec<String> {
    let executions = cluster.executions(job).await.into_iter();
    let live = executions.filter(|it| !it.compute_state.state_type.is_terminal());
    let live: Vec<_> = live.map(|execution| execution.id.to_string()).collect();
    let containers = cluster.containers().await.into_iter();
    let running = containers.filter(|container| container.state == "running").count();
    assert!(live.len() <= MOST && running <= MOST, "{live:?}, {running} containers");
    live
}

#[tokio::test]
async fn an_array_stays_within_its_limit_although_the_orchestrator_is_killed() {
    let agents = [(); 2].map(|()| AgentSpec::new().cpu("8"));
    let spec = agents.into_iter().fold(ClusterSpec::new(), ClusterSpec::agent);
    let Some(mut cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["await"]);
    job["Count"] = json!(COUNT);
    job["MaxRunning"] = json!(MOST);
    let job = cluster.submit(&job).await;
    for ended in 0..COUNT {
        let most = MOST.min(COUNT - ended);
        let found = eventually("as many executions are live as may be", async || {
            let found = live(&cluster, job).await;
            if found.len() == most { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await;
        let next = found[0].parse().expect("an ID");
        if [2, 5].contains(&ended) {
            // The task ends while no orchestrator runs.
            cluster.orchestrator.kill();
            cluster.signal_execution(next).await;
            cluster.orchestrator.restart().await;
        } else {
            cluster.signal_execution(next).await;
        }
        eventually("it has ended", async || {
            let found = live(&cluster, job).await;
            if found.contains(&next.to_string()) { Err(format!("{found:?}")) } else { Ok(()) }
        })
        .await;
    }
    cluster.wait_for_job(job, JobStateType::Completed).await;
    assert_eq!(cluster.executions(job).await.len(), COUNT, "each slot ran once");
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_command_rolls_over_a_fleet_and_stops_where_it_fails() {
    let agents = [(); 3].map(|()| AgentSpec::new());
    let spec = agents.into_iter().fold(ClusterSpec::new(), ClusterSpec::agent);
    let Some(cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["exit", "1"]);
    job["Type"] = json!(JobType::Ops);
    job["MaxRunning"] = json!(1);
    let job = cluster.submit(&job).await;
    cluster.wait_for_job(job, JobStateType::Failed).await;
    assert_eq!(cluster.executions(job).await.len(), 1, "no other node is touched");
}
