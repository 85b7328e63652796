//! What happens to the orchestrators when a standby of the database is promoted, or dies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api_types::execution::ComputeState;
use api_types::job::JobStateType;
use postgres_server::TestDatabase;
use serde_json::json;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, batch, eventually, noop};

use super::measure::{
    Acknowledged, acknowledged_since, exist_once, http, row, served_again, submit, submit_some,
};
use super::readers::EventReader;

const NAME: &str = "standby";

/// The first server, and its standby.
const PRIMARY: usize = 0;
const STANDBY: usize = 1;

/// How far an asynchronous standby is behind when it is promoted.
const LAG: Duration = Duration::from_secs(5);

/// By how much numbers jump when some may have been lost.
const JUMP: i64 = 1 << 32;

/// Longer than a follower waits for a silent leader.
const NO_TAKEOVER: Duration = Duration::from_secs(8);

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Standby {
    Synchronous,
    Asynchronous,
}

pub(crate) fn store_with(standby: Standby) -> Option<SharedStore> {
    let primary = TestDatabase::alone()?;
    let second = primary.standby(NAME);
    if standby == Standby::Synchronous {
        primary.set("synchronous_standby_names", NAME);
    }
    let mut store = SharedStore::of(primary);
    store.add(second);
    Some(store)
}

/// The primary's machine loses its power, and the standby is promoted. Returns when it was.
fn fail_over(cluster: &Cluster) -> Instant {
    cluster.store().server(PRIMARY).kill();
    cluster.store().server(STANDBY).command("promote");
    Instant::now()
}

/// Submits until it may stop, and returns what was acknowledged.
async fn submit_while(goes_on: &AtomicBool, base_url: &str, client: usize) -> Vec<Acknowledged> {
    let http = http();
    let mut acknowledged = Vec::new();
    while goes_on.load(Ordering::Acquire) {
        let key = format!("{client}-{}", acknowledged.len());
        if let Ok(one) = submit(&http, base_url, &noop(), &key).await {
            acknowledged.push(one);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    acknowledged
}

#[tokio::test]
async fn the_promotion_of_a_synchronous_standby_loses_nothing_that_was_acknowledged() {
    row("synchronous standby promoted, once it is", Duration::from_secs(4), async || {
        let store = store_with(Standby::Synchronous)?;
        let mut cluster = ClusterSpec::new().sharing(store, 2).start_without_agents().await;
        let reader = EventReader::start(cluster.client()).await;
        let url = cluster.orchestrator_at(0).base_url().to_owned();
        let goes_on = Arc::new(AtomicBool::new(true));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (url, goes_on) = (url.clone(), Arc::clone(&goes_on));
                tokio::spawn(async move { submit_while(&goes_on, &url, client).await })
            })
            .collect();
        eventually("the clients submit", async || match reader.received().events.len() {
            0..20 => Err("few events".to_owned()),
            _ => Ok(()),
        })
        .await;
        let promoted = fail_over(&cluster);
        let took = served_again(&cluster, promoted).await;
        goes_on.store(false, Ordering::Release);
        cluster.restart_crashed().await;
        let mut acknowledged = Vec::new();
        for client in clients {
            acknowledged.extend(client.await.expect("it ends"));
        }
        assert!(acknowledged.len() > 10, "{acknowledged:?}");
        exist_once(&cluster, &acknowledged).await;
        let received = reader.has_all(&cluster).await;
        assert!(received.gaps.len() <= 1, "{received:?}");
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn commits_wait_for_a_synchronous_standby_that_is_dead_and_no_one_takes_over_for_it() {
    row("synchronous standby dead, once it is back", Duration::from_secs(4), async || {
        let store = store_with(Standby::Synchronous)?;
        let cluster = ClusterSpec::new().sharing(store, 2).start_without_agents().await;
        let before = submit_some(&cluster, 5).await;
        let lead = cluster.store().direct().lead().await.expect("the database answers");
        cluster.store().server(STANDBY).stop();
        let began = Instant::now();
        let url = cluster.orchestrator_at(0).base_url().to_owned();
        let (http, job) = (http(), noop());
        let waits = submit(&http, &url, &job, "waits");
        let early = tokio::time::timeout(Duration::from_secs(2), waits).await;
        assert!(!matches!(early, Ok(Ok(_))), "nothing confirms it: {early:?}");
        while began.elapsed() < NO_TAKEOVER {
            let now = cluster.store().direct().lead().await.expect("the database answers");
            assert_eq!(now.address, lead.address, "after {:?}", began.elapsed());
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        cluster.store().server(STANDBY).start();
        let took = served_again(&cluster, Instant::now()).await;
        let now = cluster.store().direct().lead().await.expect("the database answers");
        assert_eq!(now.address, lead.address);
        exist_once(&cluster, &before).await;
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn after_the_promotion_of_an_asynchronous_standby_no_number_is_used_again_and_services_stay()
{
    row("asynchronous standby promoted, once it is", Duration::from_secs(4), async || {
        let store = store_with(Standby::Asynchronous)?;
        let spec = ClusterSpec::new().sharing(store, 2).agent(AgentSpec::new());
        let mut cluster = spec.start().await?;
        let mut service = batch(&cluster.image, &["sleep", "600"]);
        service["Type"] = json!("service");
        let service = cluster.submit(&service).await;
        let running = cluster.wait_for_execution(service, ComputeState::BidAccepted).await;
        let containers = cluster.containers().await;
        is_replicated(&cluster).await;
        let reader = EventReader::start(cluster.client()).await;

        cluster.store().server(STANDBY).stop_receiving();
        let lagging = Instant::now();
        let lost = submit_some(&cluster, 5).await;
        tokio::time::sleep(LAG.saturating_sub(lagging.elapsed())).await;
        let before = cluster.store().direct().lead().await.expect("the database answers");
        let promoted = fail_over(&cluster);
        let (took, first) = acknowledged_since(&cluster, promoted).await;

        let logs = [0, 1].map(|number| cluster.orchestrator_at(number).log()).join("");
        assert!(
            logs.contains("the database has lost commits that it had acknowledged")
                || logs.contains("numbers that it may have lost are skipped"),
            "it is logged"
        );
        cluster.restart_crashed().await;
        let after = cluster.store().direct().lead().await.expect("the database answers");
        assert!(after.last_commit >= before.last_commit + JUMP - 1_000, "{before:?} {after:?}");
        for one in &lost {
            assert_ne!(one.id, first.id);
            assert!(cluster.client().describe_job(one.id).await.is_err(), "it was lost");
        }
        let job = cluster.submit_with_retries(&batch(&cluster.image, &["echo", "x"]), "new").await;
        cluster.wait_for_job(job, JobStateType::Completed).await;
        let received = reader.has_all(&cluster).await;
        assert_eq!(received.gaps.len(), 1, "{received:?}");
        let now = cluster.execution(service).await;
        assert_eq!((now.id, now.compute_state.state_type), (running.id, ComputeState::BidAccepted));
        let ids = |all: &[task_image::docker::LabelledContainer]| -> Vec<_> {
            let its = all.iter().filter(|one| one.execution_id == running.id.to_string());
            its.map(|one| (one.id.clone(), one.state.clone())).collect()
        };
        assert_eq!(ids(&cluster.containers().await), ids(&containers), "the same container");
        Some(took)
    })
    .await;
}

/// The standby has all that the primary has at this moment.
async fn is_replicated(cluster: &Cluster) {
    let session = cluster.store().direct().session().await.expect("the database answers");
    let written = session.query_one("SELECT pg_current_wal_lsn()::text", &[]).await;
    let written: String = written.expect("a position").get(0);
    let replayed = "SELECT replay_lsn >= $1::text::pg_lsn FROM pg_stat_replication";
    eventually("the standby has everything", async || {
        let row =
            session.query_one(replayed, &[&written]).await.map_err(|error| error.to_string())?;
        if row.get(0) { Ok(()) } else { Err(written.clone()) }
    })
    .await;
}
