//! Executions that end their agent, and agents that end for no reason of theirs.

use std::time::{Duration, Instant};

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use failpoint::POISON_VARIABLE;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, eventually_within};

use crate::programs::{job, ticking};

/// For a job of which an agent handles one execution at a time.
const PATIENCE: Duration = Duration::from_secs(180);

fn named(name: &str) -> Value {
    let mut job = testbed::harness::noop();
    job["Name"] = json!(name);
    job
}

/// Restarts crashed agents until `done` says so.
async fn restarting(cluster: &mut Cluster, what: &str, done: impl AsyncFn(&Cluster) -> bool) {
    let begin = Instant::now();
    while !done(cluster).await {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        cluster.agents[0].start_if_crashed().await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn what_ends_its_agent_is_given_up_at_the_fourth_start_and_everything_else_completes() {
    for step in ["prepare", "watch", "collect"] {
        let agent =
            AgentSpec::new().engines("noop").setting(POISON_VARIABLE, &format!("{step}=poisoned"));
        let mut cluster = ClusterSpec::new().agent(agent).start_without_docker().await;
        let mut innocent = named("innocent");
        innocent["Count"] = json!(20);
        let before = cluster.submit(&innocent).await;
        let poisoned = cluster.submit(&named("poisoned")).await;
        let after = cluster.submit(&innocent).await;

        restarting(&mut cluster, "the poisoned execution to fail", async |cluster| {
            let executions = cluster.executions(poisoned).await;
            executions.iter().any(|one| one.compute_state.state_type == ComputeState::Failed)
        })
        .await;
        let crashes = cluster.agents[0].crashes();
        assert!(crashes <= 3, "{step}: {crashes} crashes");
        let failed = &cluster.executions(poisoned).await[0];
        let message = &failed.compute_state.message;
        assert!(message.contains("while it handled nothing but this execution"), "{message}");
        cluster.client().stop_job(poisoned, "").await.expect("it is stopped");
        for id in [before, after] {
            restarting(&mut cluster, "the other jobs to complete", async |cluster| {
                let job = cluster.client().describe_job(id).await.expect("the job");
                assert_ne!(job.state.state_type, JobStateType::Failed, "{}", job.state.message);
                job.state.state_type == JobStateType::Completed
            })
            .await;
        }
        for id in [before, after] {
            let executions = cluster.executions(id).await;
            let failed =
                executions.iter().find(|one| one.compute_state.state_type == ComputeState::Failed);
            assert!(failed.is_none(), "{step}: {failed:?} is innocent");
        }
    }
}

#[tokio::test]
async fn a_hundred_tasks_complete_through_ten_kills_of_their_agents() {
    let agent = || AgentSpec::new().engines("wasm").cpu("4");
    let mut cluster = ClusterSpec::new().agent(agent()).agent(agent()).start_without_docker().await;
    let mut tasks = job(&ticking(8, 0));
    tasks["Count"] = json!(100);
    let id = cluster.submit(&tasks).await;
    // Pseudo-random moments between a tenth of a second and two seconds.
    let mut state: u64 = 0x9e37_79b9;
    for kill in 0..10_usize {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(100 + (state >> 33) % 1900)).await;
        let agent = &mut cluster.agents[kill % 2];
        agent.kill();
        agent.restart().await;
    }
    eventually_within(PATIENCE, "the job to complete", async || {
        let job = cluster.client().describe_job(id).await.map_err(|error| error.to_string())?;
        assert_ne!(job.state.state_type, JobStateType::Failed, "{}", job.state.message);
        match job.state.state_type {
            JobStateType::Completed => Ok(()),
            state => Err(format!("{state}: {}", job.state.message)),
        }
    })
    .await;
}
