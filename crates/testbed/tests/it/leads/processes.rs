//! What happens to the process that leads.

use std::time::{Duration, Instant};

use testbed::harness::{Cluster, ClusterSpec, SharedStore};

use super::measure::{exist_once, row, served_again, submit_some};

/// Jobs that are acknowledged before a fault.
const BEFORE: usize = 20;

/// A cluster of this many orchestrators, of which the first leads.
pub(crate) async fn cluster(orchestrators: usize) -> Option<Cluster> {
    let store = SharedStore::start()?;
    let cluster = ClusterSpec::new().sharing(store, orchestrators).start_without_agents().await;
    assert_eq!(cluster.leader().await, 0);
    Some(cluster)
}

/// Submits jobs, has this happen to the leader, and waits until another one serves.
async fn after(orchestrators: usize, fault: impl AsyncFn(&mut Cluster)) -> Option<Duration> {
    let mut cluster = cluster(orchestrators).await?;
    let before = submit_some(&cluster, BEFORE).await;
    let since = Instant::now();
    fault(&mut cluster).await;
    let took = served_again(&cluster, since).await;
    assert_ne!(cluster.leader().await, 0);
    exist_once(&cluster, &before).await;
    Some(took)
}

#[tokio::test]
async fn the_next_one_serves_after_a_kill() {
    row("kill -9 of the leader", Duration::from_secs(5), async || {
        after(2, async |cluster| cluster.orchestrator_at_mut(0).kill()).await
    })
    .await;
}

#[tokio::test]
async fn the_next_one_serves_after_a_stop() {
    row("SIGTERM", Duration::from_secs(2), async || {
        after(2, async |cluster| cluster.orchestrator_at(0).ask_to_stop()).await
    })
    .await;
}

#[tokio::test]
async fn the_next_one_serves_while_the_leader_stands_still() {
    row("SIGSTOP", Duration::from_secs(5), async || {
        after(2, async |cluster| cluster.orchestrator_at(0).pause()).await
    })
    .await;
}

#[tokio::test]
async fn the_next_one_serves_when_the_leaders_machine_is_gone() {
    row("machine gone", Duration::from_secs(5), async || {
        after(2, async |cluster| {
            cluster.relay(0).cut();
            cluster.orchestrator_at(0).pause();
        })
        .await
    })
    .await;
}

#[tokio::test]
async fn of_two_that_take_over_at_the_same_time_one_wins() {
    row("two take over at the same time", Duration::from_secs(5), async || {
        let mut cluster = cluster(3).await?;
        let before = submit_some(&cluster, BEFORE).await;
        let since = Instant::now();
        cluster.orchestrator_at_mut(0).kill();
        let took = served_again(&cluster, since).await;
        let leader = cluster.leader().await;
        exist_once(&cluster, &before).await;
        let serve =
            |number: &usize| cluster.orchestrator_at(*number).log().contains("serving address=");
        assert_eq!([1, 2].into_iter().filter(serve).collect::<Vec<_>>(), [leader]);
        Some(took)
    })
    .await;
}
