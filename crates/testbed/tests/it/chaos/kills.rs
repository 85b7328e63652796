//! `kill -9` of any daemon at any time, while clients submit jobs and record acknowledgements.

use api_client::{Client, JobsQuery};
use api_types::JobId;
use api_types::job::JobStateType;
use futures_util::future::join_all;
use serde_json::{Value, json};
use simulator::random::Random;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, batch, eventually, noop};
use tokio::time::Instant;

const CLIENTS: u64 = 3;

/// An acknowledged submission.
struct Acknowledged {
    key: String,
    job: Value,
    id: JobId,
    expected: JobStateType,
}

#[tokio::test]
#[ignore = "long"]
async fn every_acknowledged_job_has_one_outcome_regardless_of_kills() {
    let agent = || AgentSpec::new().engines("docker,noop").cpu("4").memory("8GB");
    // Shorter than some downtimes, so that work also moves between nodes.
    let spec = ClusterSpec::new().setting("ORCHESTRATOR_NODE_TTL", "3").agent(agent());
    let Some(mut cluster) = spec.agent(agent()).start().await else { return };
    let mut random = super::random("kills");
    let deadline = Instant::now() + super::duration();
    let (client, image) = (cluster.client().clone(), cluster.image.clone());
    let clients: Vec<_> =
        (0..CLIENTS).map(|number| (number, Random::new(random.within(0..u64::MAX)))).collect();
    let clients = clients
        .into_iter()
        .map(|(number, random)| submit_until(deadline, &client, &image, random, number));
    let (kills, acknowledged) =
        tokio::join!(kill_until(deadline, &mut cluster, &mut random), join_all(clients));

    let acknowledged: Vec<_> = acknowledged.into_iter().flatten().collect();
    let mut executions = 0;
    for Acknowledged { key, job, id, expected } in &acknowledged {
        let ending = cluster.ending(*id).await;
        assert_eq!(ending.state, *expected, "{key}: {job:#}");
        executions += ending.executions;
        assert_eq!(cluster.submit_with_retries(job, key).await, *id, "{key} has the same job");
    }
    let stored = stored_jobs(&cluster).await;
    assert_eq!(stored, acknowledged.len(), "every stored job was acknowledged");
    cluster.no_container_left().await;
    let jobs = acknowledged.len();
    eprintln!("{kills} kills; {jobs} jobs, {executions} executions");
    assert!(kills > 0 && jobs > 0);
}

async fn kill_until(deadline: Instant, cluster: &mut Cluster, random: &mut Random) -> u32 {
    let mut kills = 0;
    while Instant::now() < deadline {
        tokio::time::sleep(random.millis(100..1500)).await;
        let downtime =
            random.millis(0..5000).min(deadline.saturating_duration_since(Instant::now()));
        let daemon = match random.within(0..3) {
            0 => &mut *cluster.orchestrator,
            1 => &mut *cluster.agents[0],
            _ => &mut *cluster.agents[1],
        };
        daemon.kill();
        kills += 1;
        // Restart immediately half of the time, like a process supervisor.
        if random.chance(500) {
            tokio::time::sleep(downtime).await;
        }
        daemon.restart().await;
    }
    kills
}

async fn submit_until(
    deadline: Instant,
    client: &Client,
    image: &str,
    mut random: Random,
    number: u64,
) -> Vec<Acknowledged> {
    let mut acknowledged = Vec::new();
    while Instant::now() < deadline {
        let (job, expected) = any_job(image, &mut random);
        let key = format!("{number}-{}", acknowledged.len());
        let body = json!({ "Job": job }).to_string();
        let id = eventually(&format!("{key} is accepted"), async || {
            match client.create_job_raw(body.clone().into(), Some(&key)).await {
                Ok(created) => Ok(created.job_id),
                Err(error) if error.is_transient() => Err(error.to_string()),
                Err(error) => panic!("{key}: {error}"),
            }
        })
        .await;
        acknowledged.push(Acknowledged { key, job, id, expected });
        tokio::time::sleep(random.millis(50..500)).await;
    }
    acknowledged
}

/// Mostly cheap jobs, so that many are active at any time.
fn any_job(image: &str, random: &mut Random) -> (Value, JobStateType) {
    let (mut job, expected) = match random.within(0..10) {
        0 => (batch(image, &["echo", "x"]), JobStateType::Completed),
        1 => (batch(image, &["sleep", "2"]), JobStateType::Completed),
        2 => (batch(image, &["exit", "3"]), JobStateType::Failed),
        _ => (noop(), JobStateType::Completed),
    };
    if expected == JobStateType::Completed {
        job["Count"] = json!(random.within(1..4));
    }
    (job, expected)
}

async fn stored_jobs(cluster: &Cluster) -> usize {
    let mut query = JobsQuery { limit: Some(1000), ..JobsQuery::default() };
    let mut count = 0;
    loop {
        let page = cluster.client().list_jobs(&query).await.expect("the orchestrator runs");
        count += page.jobs.len();
        if page.next_token.is_empty() {
            return count;
        }
        query.next_token = Some(page.next_token);
    }
}
