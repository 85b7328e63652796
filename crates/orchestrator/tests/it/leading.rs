//! Several orchestrators on one store: one leads, and what it says is certain.

mod cost;
mod groups;
mod members;
mod passing;
pub(crate) mod shared;
mod sign_in;
mod status;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use orchestrator::driver::DriverError;
use orchestrator::{Follower, Orchestrator, Settings, SharedStore, StartError, Taken};
use reqwest::Method;
use serde_json::json;
use tempfile::TempDir;

use self::shared::{FORMAT, SharedDatabase};
use crate::node::{FakeNode, node_path, session_request};
use crate::server::{JOBS, PATIENCE, Server, answer, job_path};

/// Longer than a leader trusts its last commit.
const TRUSTED: Duration = Duration::from_millis(2500);

struct Cluster {
    database: SharedDatabase,
    directory: TempDir,
}

// === impl Cluster ===

impl Cluster {
    fn new() -> Self {
        // Fails harmlessly if another test of this process has installed it.
        drop(rustls::crypto::ring::default_provider().install_default());
        let directory = tempfile::tempdir().expect("make a directory");
        Self { database: SharedDatabase::open(directory.path()), directory }
    }

    async fn follow(&self, name: &str) -> (Settings, Follower) {
        self.follow_with(name, |settings| settings).await
    }

    async fn follow_with(
        &self,
        name: &str,
        change: impl FnOnce(Settings) -> Settings,
    ) -> (Settings, Follower) {
        let settings = change(Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: self.directory.path().join(name),
            cluster_key_file: self.directory.path().join("cluster.key"),
            ..Settings::default()
        });
        let follower = Follower::bind(settings.clone()).await.expect("bind the listener");
        let (candidate, membership) = (self.database.candidate(name), self.database.membership());
        let advertise = follower.address().to_string();
        let store = SharedStore { candidate, membership, advertise, format: FORMAT };
        (settings, follower.sharing(store))
    }

    async fn wins(follower: &mut Follower) -> Taken {
        let won = tokio::time::timeout(PATIENCE, follower.win()).await;
        won.expect("the lead becomes free").expect("it is won")
    }

    async fn lead(&self, name: &str) -> Server {
        self.lead_with(name, |settings| settings).await
    }

    async fn lead_with(&self, name: &str, change: impl FnOnce(Settings) -> Settings) -> Server {
        let (settings, mut follower) = self.follow_with(name, change).await;
        let taken = Self::wins(&mut follower).await;
        let orchestrator = Orchestrator::lead(follower, taken).await.expect("it leads");
        Server::of(orchestrator, settings)
    }
}

fn job() -> serde_json::Value {
    json!({ "Type": "batch", "Tasks": [{ "Name": "main", "Engine": { "Type": "noop" } }] })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_leader_keeps_the_lead_and_a_follower_goes_on_when_it_resigns() {
    let cluster = Cluster::new();
    let mut first = cluster.lead("a").await;
    let id = first.submit(job()).await;
    let (settings, mut follower) = cluster.follow("b").await;
    let early = tokio::time::timeout(TRUSTED * 2, follower.win()).await;
    assert!(early.is_err(), "the leader renews");
    drop(follower);
    drop(settings);

    let (settings, mut follower) = cluster.follow("b").await;
    let stopping = tokio::spawn(async move { first.stop().await });
    let begun = Instant::now();
    let taken = Cluster::wins(&mut follower).await;
    assert!(begun.elapsed() < TRUSTED, "it was resigned: {:?}", begun.elapsed());
    stopping.await.unwrap();
    let orchestrator = Orchestrator::lead(follower, taken).await.expect("it leads");
    let second = Server::of(orchestrator, settings);
    second.get(&job_path(&id)).await.ok();
    assert_eq!(cluster.database.leader().as_deref(), Some("b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_commits_hang_says_nothing_that_may_be_untrue_and_ends_when_it_was_replaced()
{
    let cluster = Cluster::new();
    let mut first = cluster.lead("a").await;
    let id = first.submit(job()).await;
    let node = FakeNode::join(&first).await;
    let heartbeat = json!({
        "Session": node.session,
        "UsedCapacity": { "CPU": 0.0, "Memory": 0, "Disk": 0, "GPU": 0 },
        "RunningExecutions": 0,
        "EnqueuedExecutions": 0,
    });
    let beat = node_path(&node.id, "/heartbeat");
    first.put(&beat, &heartbeat).await.ok();
    let events = first.request(Method::GET, "/api/v1/orchestrator/events");
    let events = events.send().await.expect("a stream");
    assert!(events.status().is_success());

    cluster.database.stop("a");
    let (settings, mut follower) = cluster.follow("b").await;
    let taken = Cluster::wins(&mut follower).await;
    let orchestrator = Orchestrator::lead(follower, taken).await.expect("it leads");
    let second = Server::of(orchestrator, settings);
    second.get(&job_path(&id)).await.ok();

    let uncertain = |answer: crate::server::Answer| {
        answer.refused(503, "StoreUnavailable").says("not certain that it still leads");
        assert_eq!(answer.headers["Retry-After"], "1");
    };
    uncertain(first.get(&job_path(&id)).await);
    uncertain(first.put(&beat, &heartbeat).await);
    uncertain(first.get("/api/v1/orchestrator/events").await);
    uncertain(first.get("/api/v1/agent/node").await);
    for open in ["/livez", "/api/v1/agent/alive", "/api/v1/agent/version", "/"] {
        assert_eq!(first.get(open).await.status.as_u16(), 200, "{open}");
    }
    let mut pieces = events.bytes_stream();
    let ended = async {
        while let Some(piece) = pieces.next().await {
            if piece.is_err() {
                return;
            }
        }
        panic!("the end of the stream passes for a whole one");
    };
    tokio::time::timeout(PATIENCE, ended).await.expect("the stream ends");

    cluster.database.go_on();
    let failed = tokio::time::timeout(PATIENCE, first.failed()).await.expect("it ends");
    assert!(failed.is_some_and(|error| error.to_string().contains("taken the lead")));
    second.get(&job_path(&id)).await.ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_refused_only_after_a_commit_that_began_later() {
    let cluster = Cluster::new();
    let server = cluster.lead("a").await;
    let node = FakeNode::join(&server).await;
    server.put(&node_path(&node.id, ""), &json!({ "Action": "reject" })).await.ok();
    let join = || {
        let path = node_path(&node.id, "/session");
        answer(server.request(Method::PUT, &path).json(&session_request()))
    };
    join().await.refused(403, "Forbidden");
    cluster.database.stop("a");
    let mut refusal = Box::pin(join());
    let early = tokio::time::timeout(Duration::from_millis(500), &mut refusal).await;
    assert!(early.is_err(), "it waits for a commit: {early:?}");
    let before = cluster.database.commits();
    cluster.database.go_on();
    refusal.await.refused(403, "Forbidden");
    assert!(cluster.database.commits() > before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_loads_beats_and_one_whose_load_is_overtaken_does_not_start() {
    let cluster = Cluster::new();
    cluster.database.stop_load("a");
    let (_, mut slow) = cluster.follow("a").await;
    let taken = Cluster::wins(&mut slow).await;
    let loading = tokio::spawn(Orchestrator::lead(slow, taken));
    let (settings, mut follower) = cluster.follow("b").await;
    let early = tokio::time::timeout(TRUSTED * 2, follower.win()).await;
    assert!(early.is_err(), "the leader beats");
    assert!(cluster.database.beats() >= 3);
    assert!(!loading.is_finished());
    drop((settings, follower));

    // An operator intervenes, or the follower's wait was longer than the leader could beat.
    cluster.database.depose();
    let lost = tokio::time::timeout(PATIENCE, loading).await.expect("it ends").unwrap();
    let Err(StartError::Driver(error @ DriverError::Step(_))) = lost else {
        panic!("it leads without the lead")
    };
    assert!(error.to_string().contains("taken the lead"), "{error}");
    cluster.database.go_on();
    let next = cluster.lead("b").await;
    next.get(JOBS).await.ok();
}
