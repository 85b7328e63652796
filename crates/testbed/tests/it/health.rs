//! A node that fails every execution backs off, and its work completes elsewhere.

use std::time::{Duration, UNIX_EPOCH};

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use api_types::node::{HealthState, NodeHealth};
use api_types::{NodeId, Timestamp};
use failpoint::{ERROR, STUCK};
use serde_json::{Value, json};
use testbed::harness::{
    Agent, AgentSpec, Cluster, ClusterSpec, TIMEOUT, batch, eventually, eventually_within,
};

const JOBS: usize = 100;

/// The failpoints of a node whose Engine starts nothing.
const STARTS: [&str; 2] = ["docker.twin", "docker.start"];

/// Executions that the broken node gets before it backs off: as many as it has room for may be under
/// way when the third fails.
const MAX_TRIES: usize = 15;

/// A busy machine fails a probe or two, each of which doubles the back-off.
const RECOVERY: Duration = Duration::from_secs(180);

/// After how long an agent that hangs ends itself, and with which code.
const HUNG: Duration = Duration::from_secs(60);
const EXIT_HUNG: i32 = 70;

/// How far two readings of the same moment may differ.
const CLOCKS: Duration = Duration::from_millis(100);

#[tokio::test]
#[ignore = "long"]
async fn a_node_whose_docker_fails_every_start_backs_off_and_the_other_runs_its_backlog() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("docker", "broken"))
        .agent(AgentSpec::new().label("docker", "good"));
    let Some(cluster) = spec.start().await else { return };
    let broken = &cluster.agents[0];
    starts_nothing(broken).await;
    let mut jobs = Vec::new();
    for _ in 0..JOBS {
        jobs.push(cluster.submit(&batch(&cluster.image, &["echo"])).await);
    }
    let reason = backing_off(&cluster, broken.node_id()).await.reason;
    assert!(reason.contains("docker answers 500"), "{reason}");
    let mut tries = 0;
    for id in jobs {
        cluster.wait_for_job(id, JobStateType::Completed).await;
        let executions = cluster.executions(id).await;
        tries += executions.iter().filter(|one| one.node_id == broken.node_id()).count();
    }
    assert!((3..MAX_TRIES).contains(&tries), "{tries} executions went to the broken node");

    is_mended(broken).await;
    takes_work_again(&cluster, broken).await;
}

#[tokio::test]
#[ignore = "long"]
async fn a_hung_agent_is_offered_nothing_ends_itself_and_the_next_adopts_its_tasks() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("agent", "hung"))
        .agent(AgentSpec::new().label("agent", "good"));
    let Some(mut cluster) = spec.start().await else { return };
    let [hung, good] = [cluster.agents[0].node_id(), cluster.agents[1].node_id()];
    let on_hung = |mut job: Value| {
        job["Constraints"] = json!([{ "Key": "agent", "Operator": "=", "Values": ["hung"] }]);
        job
    };
    let mut job = on_hung(batch(&cluster.image, &["sleep", "75"]));
    // However long a busy machine takes to start the next.
    job["Tasks"][0]["Timeouts"] = json!({ "LostAfter": 2 * HUNG.as_secs() });
    let running = cluster.submit(&job).await;
    cluster.wait_for_execution(running, ComputeState::BidAccepted).await;
    cluster.agents[0].failpoints().arm("ledger.before", STUCK).await;
    let offered = cluster.submit(&on_hung(batch(&cluster.image, &["echo"]))).await;

    eventually("the node says that its agent hangs", async || {
        let described = cluster.client().describe_node(hung).await;
        let health = described.map_err(|error| error.to_string())?.health;
        match health.state {
            HealthState::Stalled => Ok(()),
            other => Err(format!("{other}: {}", health.reason)),
        }
    })
    .await;
    for _ in 0..10 {
        let id = cluster.submit(&batch(&cluster.image, &["echo"])).await;
        cluster.wait_for_job(id, JobStateType::Completed).await;
        assert_eq!(cluster.execution(id).await.node_id, good);
    }

    let status = cluster.agents[0].ends_within(2 * HUNG).await;
    assert_eq!(status.code(), Some(EXIT_HUNG), "{}", cluster.agents[0].log_tail());
    cluster.agents[0].restart().await;
    let ending = cluster.ending(running).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 1));
    cluster.wait_for_job(offered, JobStateType::Completed).await;
    let health = cluster.client().describe_node(hung).await.expect("it is known").health;
    assert_eq!(health.state, HealthState::Healthy, "{}", health.reason);
}

#[tokio::test]
async fn a_node_that_backs_off_does_so_over_a_restart_of_the_orchestrator() {
    let spec = ClusterSpec::new().agent(AgentSpec::new().label("docker", "broken"));
    let Some(mut cluster) = spec.start().await else { return };
    let id = cluster.agents[0].node_id();
    starts_nothing(&cluster.agents[0]).await;
    let mut jobs = Vec::new();
    for _ in 0..4 {
        jobs.push(cluster.submit(&batch(&cluster.image, &["echo"])).await);
    }
    backing_off(&cluster, id).await;
    // What was under way as it began to back off would end after the failpoint is disarmed.
    for job in &jobs {
        eventually("its executions have ended", async || {
            let states = cluster.executions(job).await.into_iter().map(|one| one.compute_state);
            let states: Vec<_> = states.map(|state| state.state_type).collect();
            match states.iter().all(|state| state.is_terminal()) {
                true => Ok(()),
                false => Err(format!("{states:?}")),
            }
        })
        .await;
    }
    let before = backing_off(&cluster, id).await;
    cluster.orchestrator.kill();
    cluster.orchestrator.restart().await;
    let after = cluster.client().describe_node(id).await.expect("it is known").health;
    let time = |text: &str| Timestamp::parse(text).unwrap_or_else(|| panic!("no time: '{text}'"));
    let planned = time(&before.next_try);
    match after.state {
        HealthState::BackingOff => {
            assert_eq!(after.reason, before.reason);
            let next = time(&after.next_try);
            let moved = next.since(planned).max(planned.since(next));
            assert!(moved < CLOCKS, "planned for {}, then for {}", before.next_try, after.next_try);
        }
        // On a slow machine it is over by now.
        other => assert!(planned.since(now()) < CLOCKS, "{other} before {}", before.next_try),
    }

    is_mended(&cluster.agents[0]).await;
    eventually_within(RECOVERY, "the node is healthy", async || {
        let described = cluster.client().describe_node(id).await;
        match described.map_err(|error| error.to_string())?.health {
            NodeHealth { state: HealthState::Healthy, .. } => Ok(()),
            other => Err(format!("{}: {}", other.state, other.reason)),
        }
    })
    .await;
    for job in jobs {
        cluster.wait_for_job(job, JobStateType::Completed).await;
        let executions = cluster.executions(job).await;
        let last = executions.iter().map(|one| one.create_time).max().expect("it ran");
        assert!(planned.since(last) < CLOCKS, "a try {:?} too early", planned.since(last));
    }
}

/// Neither tasks nor the agent's own twins.
async fn starts_nothing(node: &Agent) {
    for failpoint in STARTS {
        node.failpoints().arm_always(failpoint, ERROR).await;
    }
}

async fn is_mended(node: &Agent) {
    for failpoint in STARTS {
        node.failpoints().disarm(failpoint).await;
    }
}

async fn backing_off(cluster: &Cluster, id: NodeId) -> NodeHealth {
    eventually("the node backs off", async || {
        let described = cluster.client().describe_node(id).await;
        let health = described.map_err(|error| error.to_string())?.health;
        match health.state {
            HealthState::BackingOff if !health.next_try.is_empty() => Ok(health),
            other => Err(format!("{other}: {}", health.reason)),
        }
    })
    .await
}

/// With the next probe of its agent the node is healthy.
async fn takes_work_again(cluster: &Cluster, node: &Agent) {
    let mut job: Value = batch(&cluster.image, &["echo"]);
    job["Constraints"] = json!([{ "Key": "docker", "Operator": "=", "Values": ["broken"] }]);
    let id = cluster.submit(&job).await;
    let health =
        async || cluster.client().describe_node(node.node_id()).await.expect("it is known").health;
    // The slower the machine, the more probes have failed, each of which doubles the back-off.
    let next_try = Timestamp::parse(&health().await.next_try).unwrap_or(Timestamp::ZERO);
    eventually_within(
        next_try.since(now()) + TIMEOUT,
        "the node is healthy",
        async || match health().await {
            NodeHealth { state: HealthState::Healthy, .. } => Ok(()),
            other => Err(format!("{}, next try at {}", other.state, other.next_try)),
        },
    )
    .await;
    cluster.wait_for_job(id, JobStateType::Completed).await;
    assert_eq!(cluster.executions(id).await.len(), 1, "the first try after it was mended");
    assert_eq!(health().await.reason, "");
}

fn now() -> Timestamp {
    let elapsed = UNIX_EPOCH.elapsed().expect("the clock is past 1970");
    Timestamp(elapsed.as_nanos().try_into().expect("the clock is before 2262"))
}

#[tokio::test]
async fn what_failed_on_the_free_node_waits_for_the_one_that_is_busy() {
    let spec = ClusterSpec::new()
        .agent(AgentSpec::new().label("docker", "broken"))
        .agent(AgentSpec::new().label("docker", "good"));
    let Some(cluster) = spec.start().await else { return };
    let [broken, good] = [&cluster.agents[0], &cluster.agents[1]];
    let whole_node = |parameters: &[&str]| {
        let mut job = batch(&cluster.image, parameters);
        job["Tasks"][0]["Resources"] = json!({ "CPU": "2" });
        job
    };
    let mut filler = whole_node(&["sleep", "600"]);
    filler["Constraints"] = json!([{ "Key": "docker", "Operator": "=", "Values": ["good"] }]);
    let filler = cluster.submit(&filler).await;
    cluster.wait_for_execution(filler, ComputeState::BidAccepted).await;
    broken.failpoints().arm_always("docker.start", ERROR).await;

    let id = cluster.submit(&whole_node(&["echo"])).await;
    let queued = cluster.wait_for_job(id, JobStateType::Queued).await;
    assert!(queued.state.message.contains("docker answers 500"), "{}", queued.state.message);
    cluster.client().stop_job(filler, "the node is needed").await.unwrap();
    let ending = cluster.ending(id).await;
    assert_eq!((ending.state, ending.executions), (JobStateType::Completed, 2));
    let nodes: Vec<_> = cluster.executions(id).await.iter().map(|one| one.node_id).collect();
    assert_eq!(nodes, [broken.node_id(), good.node_id()], "it did not go back to where it failed");
}
