//! `orchestrator migrate`: what is read from PostgreSQL afterwards is, byte by byte, what was read
//! from the data directory.

mod contents;

use std::collections::BTreeSet;
use std::path::Path;

use orchestrator::migrate::migrate;
use orchestrator::settings::StoreKind;
use orchestrator::{Orchestrator, Settings};
use postgres_server::TestDatabase;
use reqwest::Method;
use serde_json::Value;

use self::contents::Contents;
use crate::server::{Server, text};

const JOBS: usize = 10_000;

/// Fewer than there are.
const EVENTS: usize = 5000;

/// The state of the cluster, as its readers see it. `{…}` stands for each of the names or IDs.
const READS: [(&str, &[&str]); 29] = [
    ("/api/v1/orchestrator/audit", &["?chain=changes", "?chain=rest", "?reverse=true"]),
    ("/api/v1/orchestrator/credentials", &["?namespace=*"]),
    ("/api/v1/orchestrator/credentials/{name}", &["?namespace=default"]),
    ("/api/v1/orchestrator/executions", &["?limit=100", "?limit=100&reverse=true"]),
    ("/api/v1/orchestrator/executions/{execution_id}", &[""]),
    ("/api/v1/orchestrator/executions/{execution_id}/usage", &[""]),
    ("/api/v1/orchestrator/graphs", &["?namespace=*", "?name=nightly&limit=1"]),
    ("/api/v1/orchestrator/graphs/{graph_id}", &[""]),
    ("/api/v1/orchestrator/groups", &["?namespace=*"]),
    ("/api/v1/orchestrator/groups/{name}", &["?namespace=default"]),
    (
        "/api/v1/orchestrator/jobs",
        &[
            "?namespace=*&limit=1000",
            "?namespace=*&limit=1000&reverse=true&view=summary",
            "?namespace=*&limit=1000&order_by=id",
            "?labels=team%3Dt7&limit=100",
            "?labels=number%20in%20(7,8)",
            "?labels=team,!absent&limit=500&order_by=id&reverse=true",
            "?state=Completed,Failed,Stopped",
            "?type=service",
            "?namespace=*&name=first",
            "?namespace=*&name_prefix=bulk-1&limit=1000",
        ],
    ),
    ("/api/v1/orchestrator/jobs/{job_id}", &[""]),
    ("/api/v1/orchestrator/jobs/{job_id}/executions", &["", "?limit=1&order_by=create_time"]),
    ("/api/v1/orchestrator/jobs/{job_id}/history", &["", "?limit=3"]),
    ("/api/v1/orchestrator/jobs/{job_id}/results", &[""]),
    ("/api/v1/orchestrator/jobs/{job_id}/slots", &[""]),
    ("/api/v1/orchestrator/keys", &[""]),
    ("/api/v1/orchestrator/namespaces", &[""]),
    ("/api/v1/orchestrator/namespaces/{namespace}", &[""]),
    // Without the orchestrator itself.
    ("/api/v1/orchestrator/nodes", &["?labels=zone"]),
    ("/api/v1/orchestrator/nodes/tokens", &[""]),
    ("/api/v1/orchestrator/nodes/{node_id}", &[""]),
    ("/api/v1/orchestrator/nodes/{node_id}/history", &["", "?limit=1"]),
    ("/api/v1/orchestrator/schedules", &["?namespace=*"]),
    ("/api/v1/orchestrator/schedules/{name}", &["?namespace=default"]),
    ("/api/v1/orchestrator/schedules/{name}/runs", &["?namespace=default"]),
    ("/api/v1/orchestrator/search", &["?text=bulk-77&namespace=*", "?text=team"]),
    ("/api/v1/orchestrator/secrets", &["?namespace=*"]),
    ("/api/v1/orchestrator/secrets/{name}", &["?namespace=default"]),
];

/// Not compared as the others are.
const OTHERS: [(&str, &[&str]); 5] = [
    (
        "of the process, the caller or the release, and not of the state",
        &[
            "/api/v1/agent/alive",
            "/api/v1/agent/node",
            "/api/v1/agent/version",
            "/api/v1/auth/callback",
            "/api/v1/auth/identity",
            "/api/v1/auth/login",
            "/api/v1/auth/methods",
            "/api/v1/openapi.json",
            "/api/v1/orchestrator/changes",
            "/api/v1/orchestrator/cluster/members",
            "/api/v1/requester/{rest}",
            "/livez",
            "/metrics",
            "/readyz",
        ],
    ),
    (
        "computed from the memory of the scheduler and the time",
        &[
            "/api/v1/orchestrator/cluster",
            "/api/v1/orchestrator/cluster/demand",
            "/api/v1/orchestrator/cluster/load",
            "/api/v1/orchestrator/jobs/{job_id}/explain",
        ],
    ),
    (
        "read from nodes, which are connected to one orchestrator",
        &[
            "/api/v1/orchestrator/executions/{execution_id}/results",
            "/api/v1/orchestrator/jobs/{job_id}/logs",
            "/api/v1/orchestrator/jobs/{job_id}/usage",
            "/api/v1/orchestrator/nodes/{node_id}/assignments",
            "/api/v1/orchestrator/nodes/{node_id}/usage",
            "/api/v1/orchestrator/usage",
        ],
    ),
    ("a stream, which is compared by itself", &["/api/v1/orchestrator/events"]),
    ("with the time of the last use", &["/api/v1/orchestrator/tokens"]),
];

fn shared(database: &TestDatabase, source: &Settings, data_dir: &Path) -> Settings {
    let mut settings = Settings {
        store: StoreKind::Postgres,
        data_dir: data_dir.to_owned(),
        // The key is on every machine.
        cluster_key_file: source.data_dir.join("cluster.key"),
        ..source.clone()
    };
    settings.postgres.url.clone_from(&database.url);
    settings
}

/// Waits for work that blocks.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it does not panic")
}

/// The body, and those of all pages that follow.
async fn pages(server: &Server, path: &str) -> Vec<String> {
    let mut pages = Vec::new();
    let mut next = path.to_owned();
    loop {
        let answer = server.get(&next).await;
        // A refusal has the ID of its request.
        let text = answer.body["Message"].as_str().unwrap_or(&answer.text);
        // Results on a node are served by the orchestrator that is asked.
        let text = text.replace(&server.address().to_string(), "address");
        pages.push(format!("{} {text}", answer.status));
        let token = answer.body["NextToken"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return pages;
        }
        let join = if path.contains('?') { '&' } else { '?' };
        next = format!("{path}{join}next_token={token}");
    }
}

/// The beginning of the stream of all events.
async fn events(server: &Server) -> Vec<String> {
    let path = "/api/v1/orchestrator/events?namespace=*&last_event_id=0";
    let mut response = server.request(Method::GET, path).send().await.expect("a stream");
    let (mut stream, mut count) = (String::new(), 0);
    while count <= EVENTS {
        let piece = response.chunk().await.expect("the stream goes on").expect("more events");
        let piece = std::str::from_utf8(&piece).expect("text");
        count += piece.matches("id: ").count();
        stream.push_str(piece);
    }
    stream.split_inclusive("\n\n").take(EVENTS).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_returns_the_same_bytes_from_both_stores() {
    let Some(database) = blocking(TestDatabase::new).await else { return };
    let mut before = Server::start().await;
    let contents = Contents::fill(&before, JOBS).await;
    let directory = tempfile::tempdir().unwrap();
    let source = before.settings().clone();
    let settings = shared(&database, &source, directory.path());

    let migrate = || {
        let (settings, from) = (settings.clone(), source.data_dir.clone());
        blocking(move || migrate(&settings, &from).map_err(|refused| refused.to_string()))
    };
    let refused = migrate().await.unwrap_err();
    assert!(refused.contains("in use"), "{refused}");
    before.stop().await;
    let told = migrate().await.unwrap();
    assert!(told.contains("found each table equal"), "{told}");
    let refused = migrate().await.unwrap_err();
    assert!(refused.contains("name an empty database"), "{refused}");

    before.restart().await;
    let orchestrator = Orchestrator::start(settings.clone()).await.expect("it leads");
    let after = Server::of(orchestrator, settings);
    let (mut compared, mut differ) = (0, Vec::new());
    for (path, queries) in READS {
        for path in contents.paths(path) {
            for query in queries {
                let path = format!("{path}{query}");
                let [expected, found] = [pages(&before, &path).await, pages(&after, &path).await];
                compared += found.iter().filter(|page| page.starts_with("200")).count();
                if found != expected {
                    differ.push(format!("{path}\n  {found:?}\n  instead of\n  {expected:?}"));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{}", differ.join("\n"));
    assert!(compared > 200, "{compared} reads were compared");
    assert_eq!(events(&after).await, events(&before).await);
    blocking(move || drop(database)).await;
}

#[test]
fn every_read_of_the_api_is_compared_or_known_to_differ() {
    let document: Value = serde_json::from_str(include_str!("../../openapi.json")).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let served: BTreeSet<_> = paths
        .iter()
        .filter(|(_, operations)| operations.get("get").is_some())
        .map(|(path, _)| text(&Value::from(path.as_str())))
        .collect();
    let compared = READS.iter().map(|(path, _)| *path);
    let others = OTHERS.iter().flat_map(|(_, paths)| paths.iter().copied());
    let known: BTreeSet<_> = compared.chain(others).map(str::to_owned).collect();
    let unknown: Vec<_> = served.difference(&known).collect();
    assert!(unknown.is_empty(), "compare these as well: {unknown:?}");
}
