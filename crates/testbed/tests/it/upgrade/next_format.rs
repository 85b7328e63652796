//! Orchestrators of two releases on one database, of which the later one raises the format.
//!
//! One build stands for both: a variable raises its format, and whatever decides about formats is
//! the code of this release. The release after this one does not exist yet.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use api_client::{Client, JobsQuery};
use api_types::JobId;
use api_types::job::JobStateType;
use failpoint::NEXT_FORMAT_VARIABLE;
use serde_json::{Value, json};
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, eventually, noop};
use tokio::task::JoinHandle;

/// Jobs that are accepted between one step of an upgrade and the next.
const BETWEEN_STEPS: usize = 20;

/// Longer than any outage here.
const PATIENCE: Duration = Duration::from_secs(120);

/// Interval between submissions that no one accepts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Longer than a follower waits for a silent leader.
const LONGER_THAN_A_TAKEOVER: Duration = Duration::from_secs(6);

/// Jobs that are submitted one after the other until it ends.
struct Load {
    accepted: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
    task: JoinHandle<Vec<JobId>>,
}

// === impl Load ===

impl Load {
    fn begin(cluster: &Cluster) -> Self {
        let (accepted, is_over) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (client, count, over) = (cluster.client().clone(), accepted.clone(), is_over.clone());
        let task = tokio::spawn(async move {
            let mut jobs = Vec::new();
            while !over.load(Ordering::Relaxed) {
                jobs.push(submit(&client, jobs.len()).await);
                count.store(jobs.len(), Ordering::Relaxed);
            }
            jobs
        });
        Self { accepted, is_over, task }
    }

    /// Waits for more jobs.
    async fn goes_on(&self) {
        let before = self.accepted.load(Ordering::Relaxed);
        eventually("more jobs are accepted", async || {
            match self.accepted.load(Ordering::Relaxed) - before {
                enough if enough >= BETWEEN_STEPS => Ok(()),
                few => Err(format!("{few} more")),
            }
        })
        .await;
    }

    /// Nothing that was accepted is lost, or there twice.
    async fn ends_well(self, cluster: &Cluster) {
        self.is_over.store(true, Ordering::Relaxed);
        let accepted = self.task.await.expect("it ends");
        for job in &accepted {
            cluster.wait_for_job(*job, JobStateType::Completed).await;
        }
        let mut query = JobsQuery { limit: Some(1000), ..JobsQuery::default() };
        let mut names = BTreeMap::<String, Vec<JobId>>::new();
        loop {
            let page = cluster.client().list_jobs(&query).await.expect("a page");
            for job in page.jobs {
                names.entry(job.spec.name).or_default().push(job.id);
            }
            if page.next_token.is_empty() {
                break;
            }
            query.next_token = Some(page.next_token);
        }
        for (number, job) in accepted.iter().enumerate() {
            assert_eq!(names[&name(number)], [*job]);
        }
    }
}

fn name(number: usize) -> String {
    format!("upgrade-{number}")
}

async fn submit(client: &Client, number: usize) -> JobId {
    let mut job = noop();
    job["Name"] = json!(name(number));
    let body = json!({ "Job": job }).to_string();
    let begin = Instant::now();
    loop {
        match client.create_job_raw(body.clone().into(), Some(&name(number))).await {
            Ok(created) => return created.job_id,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "job {number}: {error}"),
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
}

async fn pair() -> Option<Cluster> {
    let store = SharedStore::start()?;
    let spec = ClusterSpec::new().sharing(store, 2).agent(AgentSpec::new().engines("noop"));
    Some(spec.start_without_docker().await)
}

/// Stops an orchestrator, and starts it as this release, once another one leads.
async fn restart_as(cluster: &mut Cluster, number: usize, format: &str) {
    let led = cluster.leader().await == number;
    let orchestrator = cluster.orchestrator_at_mut(number);
    orchestrator.set_variable(NEXT_FORMAT_VARIABLE, format);
    let status = orchestrator.terminate().await;
    assert!(status.success(), "{status}");
    if led {
        cluster.next_leader(number).await;
    }
    cluster.orchestrator_at_mut(number).restart().await;
}

/// The format of the data, and the oldest whose releases may lead.
async fn formats(cluster: &Cluster) -> [i64; 2] {
    let session = cluster.store().direct().session().await.expect("a session");
    let row = session.query_one("SELECT format, oldest FROM progress", &[]).await.expect("the row");
    [row.get(0), row.get(1)]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_follower_and_then_the_leader_are_upgraded_under_load_and_go_back() {
    let Some(mut cluster) = pair().await else { return };
    let load = Load::begin(&cluster);
    let first = cluster.leader().await;
    let second = cluster.followers().await[0];
    let [format, oldest] = formats(&cluster).await;

    restart_as(&mut cluster, second, "compatible=1").await;
    load.goes_on().await;
    assert_eq!(formats(&cluster).await, [format, oldest], "a follower migrates nothing");
    restart_as(&mut cluster, first, "compatible=1").await;
    load.goes_on().await;
    assert_eq!(cluster.leader().await, second);
    assert_eq!(formats(&cluster).await, [format + 1, oldest]);

    restart_as(&mut cluster, first, "").await;
    restart_as(&mut cluster, second, "").await;
    load.goes_on().await;
    assert_eq!(cluster.leader().await, first);
    assert_eq!(formats(&cluster).await, [format + 1, oldest], "the former release may lead");
    load.ends_well(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orchestrator_that_may_not_open_the_format_never_leads_and_says_so() {
    let Some(mut cluster) = pair().await else { return };
    let load = Load::begin(&cluster);
    let first = cluster.leader().await;
    let second = cluster.followers().await[0];
    let status = free_address();
    cluster.orchestrator_at_mut(first).set_variable("ORCHESTRATOR_STATUS_LISTEN", &status);

    restart_as(&mut cluster, second, "incompatible=1").await;
    restart_as(&mut cluster, first, "").await;
    load.goes_on().await;
    assert_eq!(cluster.leader().await, second);
    let refusal = eventually("the former release is not ready", async || {
        let answer = reqwest::get(format!("http://{status}/readyz")).await;
        let answer = answer.map_err(|error| error.to_string())?;
        match answer.status().as_u16() {
            503 => answer.json::<Value>().await.map_err(|error| error.to_string()),
            other => Err(other.to_string()),
        }
    })
    .await;
    let said = refusal["Message"].as_str().unwrap_or_default();
    assert!(said.contains("it never leads"), "{refusal}");

    // No orchestrator leads rather than one that could misread the data.
    cluster.orchestrator_at_mut(second).kill();
    tokio::time::sleep(LONGER_THAN_A_TAKEOVER).await;
    let lead = cluster.store().direct().lead().await.expect("the row");
    assert_eq!(lead.address, Some(cluster.orchestrator_at(second).address()));
    let log = cluster.orchestrator_at(first).log();
    assert_eq!(log.matches("a newer release has migrated the state").count(), 1, "{log}");
    cluster.orchestrator_at_mut(second).restart().await;
    load.goes_on().await;
    load.ends_well(&cluster).await;
}

/// The other orchestrator waits, and its log does not grow.
async fn a_migration_takes(seconds: u64) {
    let Some(mut cluster) = pair().await else { return };
    let load = Load::begin(&cluster);
    let first = cluster.leader().await;
    let second = cluster.followers().await[0];
    restart_as(&mut cluster, second, &format!("incompatible={seconds}")).await;
    let orchestrator = cluster.orchestrator_at_mut(first);
    assert!(orchestrator.terminate().await.success());
    let before = formats(&cluster).await;
    cluster.next_leader(first).await;
    let begin = Instant::now();
    cluster.orchestrator_at_mut(first).start_again();
    let limit = Duration::from_secs(seconds) + Duration::from_secs(60);
    while formats(&cluster).await == before {
        assert!(begin.elapsed() < limit, "the migration takes {:?}", begin.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(begin.elapsed() > Duration::from_secs(seconds / 2), "it has taken no time");
    load.goes_on().await;
    assert_eq!(cluster.leader().await, second);
    let log = cluster.orchestrator_at(first).log();
    assert!(log.matches("cannot take the lead over").count() <= 1, "{log}");
    assert!(!cluster.orchestrator_at_mut(first).has_ended());
    load.ends_well(&cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_survives_a_migration_and_logs_once_that_it_cannot_lead() {
    a_migration_takes(10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn a_follower_survives_a_migration_of_a_minute() {
    a_migration_takes(60).await;
}

fn free_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    listener.local_addr().expect("it is bound").to_string()
}
