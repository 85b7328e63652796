//! Clients at work while the database fails over, twice: each standby was synchronous.

use std::sync::Arc;
use std::time::{Duration, Instant};

use simulator::random::Random;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec};

use super::clients::{Caller, Revisions, work_until};
use super::lossless::{check_jobs, no_node_was_lost, start_the_gone};
use super::measure::served_again;
use super::readers::EventReader;
use super::standbys::{Standby, store_with};
use crate::chaos;

const CLIENTS: usize = 20;

/// Between the beginning, the promotions, and the end.
const PHASE: Duration = Duration::from_secs(40);

const SECOND: &str = "second";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn two_promotions_of_synchronous_standbys_lose_nothing_that_was_acknowledged() {
    let Some(store) = store_with(Standby::Synchronous) else { return };
    let spec = ClusterSpec::new().sharing(store, 2).agent(AgentSpec::new().engines("noop"));
    let mut cluster = spec.start_without_docker().await;
    let mut random = chaos::random("promotions");
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(EventReader::start(cluster.client()).await);
    }
    let deadline = tokio::time::Instant::now() + 3 * PHASE;
    let (caller, revisions) = (Caller::new(cluster.client().base_url()), Revisions::default());
    let working: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let random = Random::new(random.within(0..u64::MAX));
            let revisions = Arc::clone(&revisions);
            tokio::spawn(work_until(deadline, caller.clone(), random, number, revisions))
        })
        .collect();

    tokio::time::sleep(PHASE).await;
    fail_over(&mut cluster, 0).await;
    let second = cluster.store().server(1).standby(SECOND);
    cluster.store().server(1).set("synchronous_standby_names", SECOND);
    cluster.store_mut().add(second);
    tokio::time::sleep(PHASE).await;
    fail_over(&mut cluster, 1).await;

    let mut submitted = Vec::new();
    for client in working {
        submitted.extend(client.await.expect("a client found nothing untrue"));
    }
    // The harness submits one after each promotion.
    check_jobs(&cluster, &caller, &submitted, 2).await;
    for reader in &readers {
        let received = reader.has_all(&cluster).await;
        assert!(received.gaps.len() <= 2, "{received:?}");
    }
    no_node_was_lost(&cluster).await;
    assert!(!submitted.is_empty());
}

/// The primary's machine loses its power, and the next server is promoted.
async fn fail_over(cluster: &mut Cluster, primary: usize) {
    cluster.store().server(primary).kill();
    cluster.store().server(primary + 1).command("promote");
    served_again(cluster, Instant::now()).await;
    start_the_gone(cluster).await;
}
