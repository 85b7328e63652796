//! What happens to the database, or on the way to it.

use std::time::{Duration, Instant};

use api_types::node::Connection;
use futures_util::future::join_all;
use testbed::harness::{AgentSpec, Cluster, ClusterSpec, SharedStore, noop};

use super::measure::{
    Acknowledged, Refusal, exist_once, http, row, served_again, submit, submit_some,
};
use super::processes::cluster;

/// Ends the session in which the leader writes.
const END_SESSION: &str = "SELECT pg_terminate_backend(pid::int) FROM progress";

/// Submissions in flight while connections are cut.
const CLIENTS: usize = 8;

/// How often the connections are cut.
const CUTS: usize = 10;

/// Longer than a leader trusts its last commit.
const TRUST_IS_OVER: Duration = Duration::from_secs(4);

/// A cluster on a server of its own with a node, which does nothing.
async fn with_a_node() -> Option<Cluster> {
    let store = SharedStore::alone()?;
    let spec = ClusterSpec::new().sharing(store, 2).agent(AgentSpec::new().engines("noop"));
    Some(spec.start_without_docker().await)
}

/// No lease of the only node has ended.
async fn node_was_never_lost(cluster: &Cluster) {
    let node = cluster.agents[0].node_id();
    let record = cluster.client().describe_node(node).await.expect("the node is known");
    assert_eq!(record.connection, Connection::Connected);
    let history = cluster.client().node_history(node, &Default::default()).await;
    let history = history.expect("the node has a history").history;
    let lost = history.iter().find(|event| event.comment.contains("lease ended"));
    assert!(lost.is_none(), "{lost:?}");
}

#[tokio::test]
async fn the_next_one_serves_when_the_leader_is_cut_off_from_the_database() {
    row("cut off from PostgreSQL", Duration::from_secs(5), async || {
        let mut cluster = cluster(2).await?;
        let before = submit_some(&cluster, CLIENTS).await;
        let since = Instant::now();
        cluster.relay(0).cut();
        let took = served_again(&cluster, since).await;
        assert_eq!(cluster.leader().await, 1);
        cluster.relay(0).heal();
        cluster.orchestrator_at_mut(0).ends_within(Duration::from_secs(2)).await;
        exist_once(&cluster, &before).await;
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn the_same_leader_continues_when_the_server_ends_its_session() {
    row("the server ends the leader's session", Duration::from_secs(2), async || {
        let cluster = cluster(2).await?;
        let before = submit_some(&cluster, CLIENTS).await;
        let session = cluster.store().direct().session().await.expect("the database answers");
        let since = Instant::now();
        let ended = session.query_one(END_SESSION, &[]).await.expect("it is the owner");
        assert!(ended.get::<_, bool>(0));
        let took = served_again(&cluster, since).await;
        assert_eq!(cluster.leader().await, 0);
        exist_once(&cluster, &before).await;
        assert_eq!(cluster.leader().await, 0, "no one has taken over since");
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn a_submission_whose_connection_to_the_database_is_cut_is_stored_once_or_unknown() {
    row("connection cut during a commit", Duration::from_secs(4), async || {
        let cluster = cluster(2).await?;
        let (http, url) = (http(), cluster.orchestrator_at(0).base_url().to_owned());
        let mut worst = Duration::ZERO;
        let mut acknowledged: Vec<Acknowledged> = Vec::new();
        let mut unknown = Vec::new();
        for cut in 0..CUTS {
            let attempts = (0..CLIENTS).map(|client| {
                let (http, url, key) = (&http, &url, format!("cut-{cut}-{client}"));
                async move {
                    let begun = Instant::now();
                    let outcome = submit(http, url, &noop(), &key).await;
                    (key, outcome, begun.elapsed())
                }
            });
            let cutting = async {
                // Between a commit's first statement and its answer, sooner or later.
                tokio::time::sleep(Duration::from_micros(700 * cut as u64)).await;
                cluster.relay(0).reset();
            };
            let (outcomes, ()) = tokio::join!(join_all(attempts), cutting);
            for (key, outcome, took) in outcomes {
                worst = worst.max(took);
                match outcome {
                    Ok(one) => acknowledged.push(one),
                    Err(Refusal::Status { status, .. }) if status == 503 => unknown.push(key),
                    Err(refusal) => panic!("{key}: {refusal:?}"),
                }
            }
        }
        assert_eq!(cluster.leader().await, 0);
        let jobs = acknowledged.len() + unknown.len();
        for key in unknown {
            let again = submit(&http, &url, &noop(), &key).await;
            acknowledged.push(again.expect("the leader serves again"));
        }
        exist_once(&cluster, &acknowledged).await;
        assert_eq!(jobs, CUTS * CLIENTS);
        let session = cluster.store().direct().session().await.expect("the database answers");
        let stored = session.query_one("SELECT count(*) FROM job", &[]).await.expect("a count");
        assert_eq!(usize::try_from(stored.get::<_, i64>(0)), Ok(jobs), "each is stored once");
        Some(worst)
    })
    .await;
}

#[tokio::test]
async fn the_same_leader_continues_after_a_restart_of_the_database() {
    row("PostgreSQL restarts in 1 s, once it is up", Duration::from_secs(2), async || {
        let cluster = with_a_node().await?;
        let before = submit_some(&cluster, CLIENTS).await;
        cluster.store().server(0).command("restart");
        let took = served_again(&cluster, Instant::now()).await;
        assert_eq!(cluster.leader().await, 0);
        exist_once(&cluster, &before).await;
        node_was_never_lost(&cluster).await;
        Some(took)
    })
    .await;
}

#[tokio::test]
async fn the_same_leader_continues_after_an_outage_of_the_database() {
    outage("PostgreSQL away for 8 s, once it is up", 2 * TRUST_IS_OVER).await;
}

#[tokio::test]
#[ignore = "long"]
async fn the_same_leader_continues_after_a_minute_without_the_database() {
    outage("PostgreSQL away for a minute, once it is up", Duration::from_mins(1)).await;
}

/// Nothing is answered in the meantime but 503, and no node is lost.
async fn outage(name: &str, length: Duration) {
    row(name, Duration::from_secs(4), async || {
        let cluster = with_a_node().await?;
        let before = submit_some(&cluster, CLIENTS).await;
        cluster.store().server(0).stop();
        let begun = Instant::now();
        let (http, url) = (http(), cluster.orchestrator_at(0).base_url().to_owned());
        while begun.elapsed() < length {
            if begun.elapsed() > TRUST_IS_OVER {
                let list = http.get(format!("{url}/api/v1/orchestrator/jobs")).send().await;
                let list = list.expect("the leader still responds");
                assert_eq!(list.status(), 503, "{:?}", begun.elapsed());
                assert_eq!(list.headers()["retry-after"], "1");
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        cluster.store().server(0).start();
        let took = served_again(&cluster, Instant::now()).await;
        assert_eq!(cluster.leader().await, 0);
        exist_once(&cluster, &before).await;
        node_was_never_lost(&cluster).await;
        Some(took)
    })
    .await;
}
