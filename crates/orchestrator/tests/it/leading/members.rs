//! `GET /api/v1/orchestrator/cluster/members`, and what orchestrators know of each other: their cluster
//! keys, their names, their settings.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use orchestrator::settings::{Auth, TlsSettings};
use orchestrator::{Follower, Orchestrator, Settings, StartError, Taken};
use reqwest::Method;
use serde_json::{Value, json};

use super::Cluster;
use crate::node::{FakeNode, executions, node_path};
use crate::server::{PATIENCE, Server, answer, list, task_with, text};

const MEMBERS: &str = "/api/v1/orchestrator/cluster/members";
const KEYS: &str = "/api/v1/orchestrator/keys";

/// A few rounds of announcements: two processes with one identity need them.
const ROUNDS: Duration = Duration::from_secs(60);

/// An orchestrator that waits for the lead.
struct Waiting {
    settings: Settings,
    address: String,
    won: tokio::task::JoinHandle<(Follower, Result<Taken, StartError>)>,
}

// === impl Cluster, Waiting ===

impl Cluster {
    fn settings(&self, name: &str) -> Settings {
        Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: self.directory.path().join(name),
            cluster_key_file: self.directory.path().join("cluster.key"),
            ..Settings::default()
        }
    }

    /// Settings with a separate cluster key, as on another machine.
    fn own(&self, name: &str) -> Settings {
        Settings { cluster_key_file: PathBuf::new(), ..self.settings(name) }
    }

    async fn lead_as(&self, name: &str, settings: &Settings) -> Server {
        self.lead_with(name, |_| settings.clone()).await
    }

    async fn wait(&self, name: &str, settings: Settings) -> Waiting {
        let (settings, mut follower) = self.follow_with(name, |_| settings).await;
        let address = follower.address().to_string();
        let won = tokio::spawn(async move {
            let won = follower.win().await;
            (follower, won)
        });
        Waiting { settings, address, won }
    }
}

impl Waiting {
    async fn lead(self) -> Server {
        let (follower, taken) = self.result().await;
        let taken = taken.expect("it is won");
        let settings = follower.1;
        let orchestrator = Orchestrator::lead(follower.0, taken).await.expect("it leads");
        Server::of(orchestrator, settings)
    }

    async fn result(self) -> ((Follower, Settings), Result<Taken, StartError>) {
        let ended = tokio::time::timeout(ROUNDS, self.won).await.expect("it goes on");
        let (follower, won) = ended.expect("no panic");
        ((follower, self.settings), won)
    }

    async fn refused(self) -> String {
        let (_, won) = self.result().await;
        let error = won.err().expect("it does not start");
        assert!(error.is_of_settings(), "{error:?}");
        format!("{:#}", anyhow::Error::from(error))
    }
}

fn key_file(settings: &Settings) -> PathBuf {
    settings.data_dir.join("cluster.key")
}

/// Gives the second the cluster key of the first.
fn copy_key(from: &Settings, to: &Settings) {
    fs::create_dir_all(&to.data_dir).expect("make the directory");
    fs::copy(key_file(from), key_file(to)).expect("copy the key");
}

async fn eventually<T>(within: Duration, mut check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match check().await {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < within, "{seen}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until the leader describes this member so.
async fn described(server: &Server, address: &str, is: impl Fn(&Value) -> bool) -> Value {
    eventually(PATIENCE, async || {
        let found = server.get(MEMBERS).await;
        let members = list(&found.ok()["Members"]).iter();
        let member = members.clone().find(|member| member["Address"] == address);
        member.filter(|member| is(member)).cloned().ok_or_else(|| found.text.clone())
    })
    .await
}

async fn rotate(server: &Server, purpose: &str) -> crate::server::Answer {
    server.post(KEYS, &json!({ "Purpose": purpose })).await
}

/// A node with an execution that reads a secret.
struct Reader {
    node: FakeNode,
    execution: String,
}

// === impl Reader ===

impl Reader {
    async fn start(server: &Server) -> Self {
        server.put("/api/v1/orchestrator/secrets/db", &json!({ "Value": "pa55" })).await.ok();
        let node = FakeNode::join(server).await;
        let id = server.submit(task_with(json!({ "Secrets": [{ "Name": "db" }] }))).await;
        let execution = text(&executions(server, &id, 1).await.remove(0)["ID"]);
        let accepted = json!({ "ExecutionID": execution, "Sequence": 1, "ComputeState": 3 });
        node.report(server, accepted).await;
        Self { node, execution }
    }

    async fn reads(&self, server: &Server) {
        let body = json!({ "ExecutionID": self.execution });
        let path = node_path(&self.node.id, "/secrets");
        let read = answer(server.request(Method::POST, &path).json(&body)).await;
        assert_eq!(read.ok()["Secrets"][0]["Data"], "cGE1NQ==");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_orchestrators_are_listed_as_they_describe_themselves() {
    let cluster = Cluster::new();
    let leader = cluster.lead("a").await;
    let settings = Settings { node_ttl: 77, ..cluster.settings("b") };
    let follower = cluster.wait("b", settings).await;
    let b = described(&leader, &follower.address, |b| b["Ready"] == true).await;
    assert_eq!((&b["Leads"], &b["Exposure"]), (&json!(false), &json!("loopback")));
    assert_eq!(b["DifferentSettings"], json!(["node_ttl"]));
    let a = described(&leader, &leader.address().to_string(), |a| a["Leads"] == true).await;
    assert_eq!(a["DifferentSettings"], json!([]));
    assert_ne!(a["Settings"], b["Settings"]);
    let listed = leader.get(MEMBERS).await;
    assert_eq!((&listed.ok()["Takeovers"], &listed.ok()["TimesWentBack"]), (&json!(1), &json!(0)));
    assert_eq!(listed.ok()["Store"], json!({ "Kind": "postgres", "Server": "one" }));
    let scraped = leader.get("/metrics").await.text;
    for sample in [
        "orchestrator_ready_standbys 1.0",
        "orchestrator_members 2.0",
        "orchestrator_members_with_other_settings 1.0",
        "orchestrator_takeovers_total 1",
        "orchestrator_times_went_back_total 0",
    ] {
        assert!(scraped.contains(sample), "{sample} is not in {scraped}");
    }
    follower.won.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_orchestrator_without_the_cluster_key_or_with_another_one_does_not_start() {
    let cluster = Cluster::new();
    let leader = cluster.lead_as("a", &cluster.own("a")).await;
    Reader::start(&leader).await;
    let without = cluster.own("b");
    let file = key_file(&without);
    let said = cluster.wait("b", without.clone()).await.refused().await;
    assert!(said.contains(&format!("{} is missing", file.display())), "{said}");
    fs::write(&file, "q83v3wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    let said = cluster.wait("b", without.clone()).await.refused().await;
    assert!(said.contains(&file.display().to_string()) && said.contains("is the key"), "{said}");
    fs::write(&file, "no key").unwrap();
    let said = cluster.wait("b", without).await.refused().await;
    assert!(said.contains("is not a cluster key"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_loses_the_cluster_key_while_it_follows_is_not_ready_and_does_not_lead() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.own("a"), cluster.own("b"));
    let mut leader = cluster.lead_as("a", &a).await;
    let reader = Reader::start(&leader).await;
    copy_key(&a, &b);
    let follower = cluster.wait("b", b.clone()).await;
    described(&leader, &follower.address, |b| b["Ready"] == true).await;
    fs::remove_file(key_file(&b)).unwrap();
    described(&leader, &follower.address, |b| b["Ready"] == false).await;
    leader.stop().await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!follower.won.is_finished(), "it leads without the cluster key");
    assert_eq!(cluster.database.leader(), None);
    copy_key(&a, &b);
    reader.reads(&follower.lead().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cluster_key_is_replaced_once_every_orchestrator_has_the_next_one() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.own("a"), cluster.own("b"));
    let mut leader = cluster.lead_as("a", &a).await;
    let reader = Reader::start(&leader).await;
    copy_key(&a, &b);
    let follower = cluster.wait("b", b.clone()).await;
    let b_listed = described(&leader, &follower.address, |b| b["Ready"] == true).await;
    let (address, short) = (follower.address.clone(), text(&b_listed["ID"])[..10].to_owned());

    let next = |settings: &Settings| settings.data_dir.join("cluster.key.next");
    let refused = rotate(&leader, "cluster").await;
    refused.refused(409, "Conflict").says("cluster.key.next is missing");
    assert!(!next(&a).exists(), "no key that only one of them has");
    fs::write(next(&a), "q83v3wAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").unwrap();
    let refused = rotate(&leader, "cluster").await;
    refused
        .refused(409, "Conflict")
        .says(&format!("the orchestrator {address} ({short}) does not have"));
    // At once: the follower notices the file within a second.
    fs::copy(next(&a), next(&b)).unwrap();
    rotate(&leader, "cluster").await.ok();
    assert!(!next(&a).exists());
    reader.reads(&leader).await;

    // Immediately: the follower may not have noticed yet.
    leader.stop().await;
    let second = follower.lead().await;
    reader.reads(&second).await;
    assert!(!next(&b).exists(), "its key has its final name");
    rotate(&second, "secrets").await.ok();
    reader.reads(&second).await;

    // A process with the former key alone does not start.
    let former = cluster.own("c");
    fs::create_dir_all(&former.data_dir).unwrap();
    let old = fs::read_dir(&b.data_dir)
        .unwrap()
        .filter_map(Result::ok)
        .find(|file| file.file_name().to_string_lossy().starts_with("cluster.key.old-"));
    fs::copy(old.expect("the former key").path(), key_file(&former)).unwrap();
    let said = cluster.wait("c", former).await.refused().await;
    assert!(said.contains("cluster.key"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_encrypted_again_by_the_next_leader() {
    let cluster = Cluster::new();
    let mut leader = cluster.lead("a").await;
    let reader = Reader::start(&leader).await;
    let follower = cluster.wait("b", cluster.settings("b")).await;
    described(&leader, &follower.address, |b| b["Ready"] == true).await;
    rotate(&leader, "secrets").await.ok();
    leader.stop().await;
    let second = follower.lead().await;
    reader.reads(&second).await;
    eventually(PATIENCE, async || {
        let keys = second.get(KEYS).await;
        let of_values = list(&keys.ok()["Keys"]).iter().filter(|key| key["Purpose"] == "secrets");
        if of_values.count() == 1 { Ok(()) } else { Err(keys.text.clone()) }
    })
    .await;
    reader.reads(&second).await;
}

/// Whether a client that knows this name alone reaches the leader over TLS.
async fn reached_as(server: &Server, ca_file: PathBuf, name: &str) -> Result<(), String> {
    let ca = fs::read(ca_file).expect("the CA");
    let ca = reqwest::Certificate::from_pem(&ca).expect("a certificate");
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([ca])
        .resolve(name, server.address())
        .build()
        .expect("a client");
    let url = format!("https://{name}:{}/readyz", server.address().port());
    let answered = client.get(url).send().await.map_err(|error| format!("{error:?}"))?;
    match answered.status().as_u16() {
        200 => Ok(()),
        status => Err(format!("{status}: {:?}", answered.text().await)),
    }
}

fn protected(settings: Settings, name: &str) -> Settings {
    let tls = TlsSettings { names: vec![format!("{name}.internal")], ..TlsSettings::default() };
    Settings { auth: Auth::Required, tls, ..settings }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_leader_is_reached_under_the_names_of_all_orchestrators() {
    let cluster = Cluster::new();
    let settings = protected(cluster.settings("a"), "a");
    let leader = cluster.lead_as("a", &settings).await;
    let ca_file = || settings.data_dir.join("ca.crt");
    reached_as(&leader, ca_file(), "a.internal").await.unwrap();
    let early = reached_as(&leader, ca_file(), "b.internal").await.unwrap_err();
    assert!(early.contains("NotValidForName"), "{early}");

    // It joins later, while the leader runs.
    let follower = cluster.wait("b", protected(cluster.settings("b"), "b")).await;
    let reached = async |name| {
        eventually(PATIENCE, async || reached_as(&leader, ca_file(), name).await).await
    };
    reached("b.internal").await;
    let admin = fs::read_to_string(settings.data_dir.join("admin.token")).unwrap();
    let rotated = leader.request(Method::POST, KEYS).bearer_auth(admin.trim());
    let before = fs::read(ca_file()).unwrap();
    answer(rotated.json(&json!({ "Purpose": "ca" }))).await.ok();
    assert_ne!(fs::read(ca_file()).unwrap(), before, "another CA signs");
    reached("b.internal").await;
    reached("a.internal").await;

    let (stopped, next) = (settings.data_dir.clone(), follower.settings.data_dir.clone());
    let mut leader = leader;
    leader.stop().await;
    let second = follower.lead().await;
    for name in ["a.internal", "b.internal"] {
        for ca in [&stopped, &next] {
            reached_as(&second, ca.join("ca.crt"), name).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_machines_with_one_identity_the_second_does_not_start() {
    let cluster = Cluster::new();
    let (a, b) = (cluster.settings("a"), cluster.settings("b"));
    let leader = cluster.lead_as("a", &a).await;
    fs::create_dir_all(&b.data_dir).unwrap();
    fs::copy(a.data_dir.join("identity.json"), b.data_dir.join("identity.json")).unwrap();
    let said = cluster.wait("b", b.clone()).await.refused().await;
    let file = b.data_dir.join("identity.json");
    assert!(
        said.contains(&format!("another orchestrator, at {}, has the identity", leader.address())),
        "{said}"
    );
    assert!(said.contains(&file.display().to_string()), "{said}");
    described(&leader, &leader.address().to_string(), |a| a["Leads"] == true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_starts_again_is_no_other_one() {
    let cluster = Cluster::new();
    for _ in 0..3 {
        let mut server = cluster.lead("a").await;
        described(&server, &server.address().to_string(), |a| a["Leads"] == true).await;
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_removes_the_join_token_that_it_left_as_a_leader() {
    let cluster = Cluster::new();
    let leader = cluster.lead_as("a", &protected(cluster.settings("a"), "a")).await;
    let settings = protected(cluster.settings("b"), "b");
    let file = settings.data_dir.join("join.token");
    fs::create_dir_all(&settings.data_dir).unwrap();
    fs::write(&file, "old").unwrap();
    let follower = cluster.wait("b", Settings { join_token_file: file.clone(), ..settings }).await;
    eventually(PATIENCE, async || {
        if file.exists() { Err("the token is still there".to_owned()) } else { Ok(()) }
    })
    .await;
    follower.won.abort();
    drop(leader);
}
