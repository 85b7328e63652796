//! The orchestrator dies in the middle: what was accepted goes on.

use api_client::{HistoryQuery, JobsQuery};
use api_types::Code;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

#[tokio::test]
async fn running_and_queued_jobs_go_on_after_kill_9() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("1"));
    let Some(mut cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["sleep", "2"]);
    job["Count"] = json!(2);
    let running = cluster.submit(&job).await;
    cluster.job_in(running, JobStateType::Running).await;
    let queued = cluster.submit(&batch(&cluster.image, &["echo", "still here"])).await;
    cluster.job_in(queued, JobStateType::Queued).await;
    let key_before = cluster.client().describe_job(running).await.unwrap().spec.meta;

    cluster.orchestrator.kill();
    cluster.orchestrator.start_again().await;

    let job = cluster.job_in(running, JobStateType::Completed).await;
    assert_eq!(job.spec.meta, key_before, "the orchestrator is still the same");
    cluster.job_in(queued, JobStateType::Completed).await;
    assert_eq!(cluster.execution(queued).await.run_output.stdout, "still here\n");
    // Each ran once, and its history has neither a gap nor a repeat.
    let executions = cluster.executions(running).await;
    assert_eq!(executions.len(), 2);
    for execution in executions {
        assert_eq!(execution.run_output.stdout, "slept 2 s\n");
        let execution_id = Some(execution.id.to_string());
        let query = HistoryQuery { execution_id, ..HistoryQuery::default() };
        let revisions: Vec<_> =
            cluster.history(running, &query).await.iter().map(|event| event.new_revision).collect();
        assert_eq!(revisions, [1, 2, 3, 4, 5, 6]);
    }
    cluster.no_container_left().await;
}

#[tokio::test]
async fn a_node_whose_orchestrator_is_away_is_ready_for_a_lease_and_no_longer() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "2");
    let mut cluster = spec.agent(AgentSpec::new().engines("noop")).start_without_docker().await;
    let url = format!("{}/readyz", cluster.agents[0].base_url());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let readiness = async |wanted: u16| {
        eventually(&format!("the agent answers {wanted}"), async || {
            let answer = http.get(&url).send().await.map_err(|error| error.to_string())?;
            let status = answer.status().as_u16();
            let body = answer.text().await.map_err(|error| error.to_string())?;
            if status == wanted { Ok(body) } else { Err(format!("{status}: {body}")) }
        })
        .await
    };
    readiness(200).await;
    cluster.orchestrator.kill();
    let told = readiness(503).await;
    assert!(told.contains("the orchestrator has not answered for longer than a lease"), "{told}");
    cluster.orchestrator.start_again().await;
    readiness(200).await;
}

#[tokio::test]
async fn what_ended_while_the_orchestrator_was_away_is_told_when_it_is_back() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "1"])).await;
    cluster.execution_in(id, ComputeState::BidAccepted).await;
    cluster.orchestrator.kill();
    // The container's end is the agent's to see; whoever stands at the node can see it too.
    let agent = cluster.agents[0].client().clone();
    eventually("the execution has ended on its node", async || {
        let executions = agent.agent_executions().await.map_err(|error| error.to_string())?;
        match executions.as_slice() {
            [one] if one.phase == "Completed" => Ok(()),
            executions => Err(format!("{executions:?}")),
        }
    })
    .await;
    cluster.orchestrator.start_again().await;
    cluster.job_in(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.run_output.stdout, "slept 1 s\n");
}

#[tokio::test]
async fn an_idempotency_key_is_remembered_across_a_restart() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    let job = batch(&cluster.image, &["echo"]);
    let id = cluster.submit_with(&job, Some("order-4711")).await;
    assert_eq!(cluster.submit_with(&job, Some("order-4711")).await, id);

    cluster.orchestrator.kill();
    cluster.orchestrator.start_again().await;

    assert_eq!(cluster.submit_with(&job, Some("order-4711")).await, id);
    let jobs = cluster.client().list_jobs(&JobsQuery::default()).await.unwrap().jobs;
    assert_eq!(jobs.len(), 1);
    let other = json!({ "Job": batch(&cluster.image, &["pwd"]) }).to_string();
    let refusal =
        cluster.client().create_job_raw(other.into(), Some("order-4711")).await.unwrap_err();
    assert_eq!(refusal.code(), Some(Code::IdempotencyConflict), "{refusal}");
}

#[tokio::test]
async fn both_daemons_end_cleanly_on_sigterm_with_work_under_way() {
    let Some(mut cluster) = Cluster::of(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.execution_in(id, ComputeState::BidAccepted).await;
    let status = cluster.orchestrator.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let status = cluster.agents[0].terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
}
