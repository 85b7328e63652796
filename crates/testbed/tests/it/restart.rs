//! The orchestrator crashes or stops, and accepted jobs continue.

use api_client::{HistoryQuery, JobsQuery};
use api_types::Code;
use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually};

#[tokio::test]
async fn running_and_queued_jobs_continue_after_kill_9() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().cpu("1"));
    let Some(mut cluster) = spec.start().await else { return };
    let mut job = batch(&cluster.image, &["await"]);
    job["Count"] = json!(2);
    let running = cluster.submit(&job).await;
    cluster.wait_for_job(running, JobStateType::Running).await;
    let queued = cluster.submit(&batch(&cluster.image, &["echo", "still here"])).await;
    cluster.wait_for_job(queued, JobStateType::Queued).await;
    let key_before = cluster.client().describe_job(running).await.unwrap().spec.meta;

    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;

    cluster.signal(running).await;
    let job = cluster.wait_for_job(running, JobStateType::Completed).await;
    assert_eq!(job.spec.meta, key_before, "the orchestrator keeps its identity");
    cluster.wait_for_job(queued, JobStateType::Completed).await;
    assert_eq!(cluster.execution(queued).await.run_output.stdout, "still here\n");
    // Each ran once, and its history has neither a gap nor a repeat.
    let executions = cluster.executions(running).await;
    assert_eq!(executions.len(), 2);
    for execution in executions {
        assert_eq!(execution.run_output.stdout, "waiting\nsignalled\n");
        let execution_id = Some(execution.id.to_string());
        let query = HistoryQuery { execution_id, ..HistoryQuery::default() };
        let revisions: Vec<_> =
            cluster.history(running, &query).await.iter().map(|event| event.new_revision).collect();
        assert_eq!(revisions, [1, 2, 3, 4, 5, 6]);
    }
    cluster.no_container_left().await;
}

#[tokio::test]
async fn an_agent_without_orchestrator_is_ready_for_a_lease_and_no_longer() {
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "2");
    let mut cluster = spec.agent(AgentSpec::new().engines("noop")).start_without_docker().await;
    let url = format!("{}/readyz", cluster.agents[0].base_url());
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let wait_for_readiness = async |expected: u16| {
        eventually(&format!("the agent responds {expected}"), async || {
            let response = http.get(&url).send().await.map_err(|error| error.to_string())?;
            let status = response.status().as_u16();
            let body = response.text().await.map_err(|error| error.to_string())?;
            if status == expected { Ok(body) } else { Err(format!("{status}: {body}")) }
        })
        .await
    };
    wait_for_readiness(200).await;
    cluster.orchestrator.kill();
    let reason = wait_for_readiness(503).await;
    assert!(
        reason.contains("the orchestrator has not answered for longer than a lease"),
        "{reason}"
    );
    cluster.orchestrator.restart().await;
    wait_for_readiness(200).await;
}

#[tokio::test]
async fn an_execution_that_ends_while_the_orchestrator_is_down_is_reported_later() {
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["await"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    cluster.orchestrator.kill();
    cluster.signal_one(cluster.agents[0].node_id()).await;
    // The agent notices the end, and its own API shows it.
    let agent = cluster.agents[0].client().clone();
    eventually("the execution has ended on its node", async || {
        let executions = agent.agent_executions().await.map_err(|error| error.to_string())?;
        match executions.as_slice() {
            [one] if one.phase == "Completed" => Ok(()),
            executions => Err(format!("{executions:?}")),
        }
    })
    .await;
    cluster.orchestrator.restart().await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.execution(id).await.run_output.stdout, "waiting\nsignalled\n");
}

#[tokio::test]
async fn an_idempotency_key_is_remembered_across_a_restart() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    let job = batch(&cluster.image, &["echo"]);
    let id = cluster.submit_with(&job, Some("order-4711")).await;
    assert_eq!(cluster.submit_with(&job, Some("order-4711")).await, id);

    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;

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
    let Some(mut cluster) = Cluster::with_agents(1).await else { return };
    let id = cluster.submit(&batch(&cluster.image, &["sleep", "600"])).await;
    cluster.wait_for_execution(id, ComputeState::BidAccepted).await;
    let status = cluster.orchestrator.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
    let status = cluster.agents[0].terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");
}
