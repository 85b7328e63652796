//! What happens to an orchestrator that takes over, while it reads the state.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use failpoint::{HANG, STUCK};
use testbed::harness::Cluster;

use super::measure::{exist_once, row, served_again, submit_some};
use super::processes::cluster;

pub(super) const LOAD: &str = "lead.load";

/// Every process that takes over hangs in its load.
async fn hang_in_loads(cluster: &Cluster, action: &str) {
    for number in cluster.followers().await {
        cluster.orchestrator_at(number).failpoints().arm_always(LOAD, action).await;
    }
}

#[tokio::test]
async fn a_load_that_takes_longer_than_the_lease_is_waited_for() {
    row("load longer than the lease, three orchestrators", Duration::from_secs(20), async || {
        let mut cluster = cluster(3).await?;
        let before = submit_some(&cluster, 5).await;
        hang_in_loads(&cluster, HANG).await;
        let since = Instant::now();
        cluster.orchestrator_at_mut(0).kill();
        let mut leaders = BTreeSet::new();
        let watching = async {
            loop {
                leaders.insert(cluster.leader().await);
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let took = tokio::select! {
            took = served_again(&cluster, since) => took,
            () = watching => unreachable!("it watches until a submission is acknowledged"),
        };
        let leader = cluster.leader().await;
        leaders.remove(&0);
        assert_eq!(leaders, BTreeSet::from([leader]), "one takeover");
        assert!(cluster.orchestrator_at(leader).failpoints().hits(LOAD, HANG) > 0);
        exist_once(&cluster, &before).await;
        Some(took)
    })
    .await;
}

#[tokio::test]
#[ignore = "long"]
async fn the_next_one_takes_over_from_a_load_that_hangs() {
    row("load that hangs", Duration::from_secs(35), async || {
        let mut cluster = cluster(3).await?;
        let before = submit_some(&cluster, 5).await;
        hang_in_loads(&cluster, STUCK).await;
        cluster.orchestrator_at_mut(0).kill();
        let first = cluster.next_leader(0).await;
        let since = Instant::now();
        cluster.orchestrator_at(3 - first).failpoints().disarm(LOAD).await;
        let took = served_again(&cluster, since).await;
        assert_eq!(cluster.leader().await, 3 - first);
        cluster.orchestrator_at_mut(first).ends_within(Duration::from_secs(5)).await;
        exist_once(&cluster, &before).await;
        Some(took)
    })
    .await;
}
