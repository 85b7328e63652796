//! Idempotency keys: expired ones are removed as fast as new ones are stored.

use failpoint::BOOT_CLOCK_OFFSET_VARIABLE;
use futures_util::StreamExt;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;
use testbed::harness::{Cluster, ClusterSpec, noop};

const KEYS: u32 = 3000;

/// Submissions in flight.
const CONNECTIONS: usize = 32;

/// Longer than a key is remembered.
const EXPIRED_SECONDS: &str = "97200";

async fn submit_with_keys(cluster: &Cluster, prefix: &str) {
    let body = json!({ "Job": noop() }).to_string();
    let submissions = (0..KEYS).map(|number| {
        let (client, body) = (cluster.client().clone(), body.clone());
        let key = format!("{prefix}-{number}");
        async move { client.create_job_raw(body.into(), Some(&key)).await.expect("it is accepted") }
    });
    futures_util::stream::iter(submissions)
        .buffer_unordered(CONNECTIONS)
        .for_each(async |_| ())
        .await;
}

#[tokio::test]
async fn expired_keys_are_removed_as_fast_as_new_ones_are_stored() {
    let mut cluster = ClusterSpec::new().start_without_agents().await;
    submit_with_keys(&cluster, "old").await;
    cluster.orchestrator.kill();
    cluster.orchestrator.set_variable(BOOT_CLOCK_OFFSET_VARIABLE, EXPIRED_SECONDS);
    cluster.orchestrator.restart().await;
    submit_with_keys(&cluster, "new").await;
    let status = cluster.orchestrator.terminate().await;
    assert_eq!(status.code(), Some(0), "{status}");

    let file = cluster.orchestrator.data_dir().join("orchestrator.db");
    let database = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let database = database.expect("no other process has it open");
    let count = |pattern: &str| {
        let query = "SELECT count(*) FROM idempotency WHERE key LIKE ?1";
        database.query_row(query, [pattern], |row| row.get::<_, u32>(0)).expect("a count")
    };
    assert_eq!((count("old-%"), count("new-%")), (0, KEYS));
}
