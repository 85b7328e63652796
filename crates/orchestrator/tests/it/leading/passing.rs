//! Connections to a follower are passed on to the leader.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use control_plane::store::{Exposure, Leader};
use daemon::http::preface::PassKey;
use futures_util::StreamExt;
use orchestrator::settings::Auth;
use orchestrator::{Follower, Orchestrator, Settings, StartError, Taken};
use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{Cluster, job};
use crate::node::{FakeNode, node_path};
use crate::server::{JOBS, PATIENCE, Server, answer, job_path, list, text};

/// How long a follower holds a connection without a leader.
const HOLD: Duration = Duration::from_secs(5);

const ALIVE: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A follower that passes connections on until it is dropped or wins.
pub(super) struct Following {
    pub(super) address: SocketAddr,
    pub(super) status: Option<SocketAddr>,
    settings: Settings,
    won: JoinHandle<(Follower, Result<Taken, StartError>)>,
}

// === impl Following ===

impl Following {
    pub(super) fn of((settings, mut follower): (Settings, Follower)) -> Self {
        let (address, status) = (follower.address(), follower.status_address());
        let won = tokio::spawn(async move {
            let taken = follower.win().await;
            (follower, taken)
        });
        Self { address, status, settings, won }
    }

    async fn lead(self) -> Server {
        let (follower, taken) =
            tokio::time::timeout(PATIENCE, self.won).await.expect("it wins").expect("no panic");
        let orchestrator = Orchestrator::lead(follower, taken.expect("it wins")).await;
        Server::of(orchestrator.expect("it leads"), self.settings)
    }
}

impl Cluster {
    pub(super) async fn pass(&self, name: &str) -> Following {
        Following::of(self.follow(name).await)
    }
}

/// Requests to another address than the server's own.
fn through(
    server: &Server,
    address: SocketAddr,
    method: Method,
    path: &str,
) -> reqwest::RequestBuilder {
    let scheme = if server.url().starts_with("https") { "https" } else { "http" };
    server.client().request(method, format!("{scheme}://{address}{path}")).timeout(PATIENCE)
}

/// What comes back on a connection until it is closed; nothing if it is reset.
async fn exchange(stream: &mut TcpStream, request: &[u8]) -> Vec<u8> {
    let mut received = Vec::new();
    let exchanging = async {
        if stream.write_all(request).await.is_ok() {
            drop(stream.read_to_end(&mut received).await);
        }
    };
    tokio::time::timeout(PATIENCE, exchanging).await.expect("the connection is closed");
    received
}

async fn asked(address: SocketAddr, request: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.expect("connect");
    exchange(&mut stream, request).await
}

fn is_alive(answer: &[u8]) -> bool {
    answer.starts_with(b"HTTP/1.1 200")
}

/// A leader of which only the address exists.
fn leader_at(address: SocketAddr) -> Leader {
    Leader { address: address.to_string(), exposure: Exposure::OpenLoopback, pass_key: [7; 32] }
}

/// An address on which nothing listens.
async fn closed_port() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    listener.local_addr().expect("a bound socket")
}

/// The next connection that sends something, after its preface.
async fn passed(listener: &TcpListener, client: SocketAddr, reached: SocketAddr) -> TcpStream {
    let expected = PassKey::new(&[7; 32]).header(client, reached);
    loop {
        let accepting = tokio::time::timeout(PATIENCE, listener.accept());
        let (mut stream, _) = accepting.await.expect("it is passed on").expect("accept");
        let mut preface = vec![0; expected.len()];
        // The others only show whether this leader accepts connections.
        if stream.read_exact(&mut preface).await.is_ok() {
            assert_eq!(preface, expected);
            return stream;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_and_nodes_may_use_the_port_of_a_follower() {
    let cluster = Cluster::new();
    let leader = cluster.lead("a").await;
    let follower = cluster.pass("b").await;
    let through = |method, path: &str| through(&leader, follower.address, method, path);
    // The whole body is read, although this part of it means nothing.
    let long = json!({ "Job": job(), "Unknown": "x".repeat(3_000_000) });
    let created = answer(through(Method::PUT, JOBS).json(&long)).await;
    let id = text(&created.ok()["JobID"]);
    assert_eq!(leader.get(&job_path(&id)).await.ok()["Job"]["ID"], json!(id));

    let node = FakeNode::join(&leader).await;
    let path = node_path(&node.id, &format!("/assignments?session={}", node.session));
    let stream = through(Method::GET, &path).send().await.expect("an answer");
    let mut lines = stream.bytes_stream();
    lines.next().await.expect("a snapshot").expect("a piece");

    // The main port shows the leader's.
    let metrics = answer(through(Method::GET, "/metrics")).await;
    assert!(metrics.text.contains("\norchestrator_leading 1\n"), "{}", metrics.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_log_has_the_address_of_the_client() {
    let cluster = Cluster::new();
    let protected = |settings| Settings { auth: Auth::Required, ..settings };
    let leader = cluster.lead_with("a", protected).await;
    let follower = Following::of(cluster.follow_with("b", protected).await);
    let admin = std::fs::read_to_string(leader.data_dir().join("admin.token")).expect("a token");
    let client = leader.client_from([127, 0, 0, 9]);
    let url = |path: &str| format!("https://{}{path}", follower.address);
    let create = client.put(url(JOBS)).json(&json!({ "Job": job() })).bearer_auth(admin.trim());
    answer(create).await.ok();
    let path = "/api/v1/orchestrator/audit?chain=rest&operation=createJob";
    let begun = Instant::now();
    let record = loop {
        let audit = leader.request(Method::GET, path).bearer_auth(admin.trim());
        if let Some(record) = list(&answer(audit).await.ok()["Records"]).first() {
            break record.clone();
        }
        assert!(begun.elapsed() < PATIENCE, "no record");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(record["Address"], "127.0.0.9", "{record}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preface_of_no_follower_is_refused_and_none_is_passed_on() {
    let cluster = Cluster::new();
    let leader = cluster.lead("a").await;
    let follower = cluster.pass("b").await;
    assert!(is_alive(&asked(follower.address, ALIVE).await), "it passes on");
    let real = PassKey::new(&cluster.database.lead().expect("a leader").pass_key);
    let forged = PassKey::new(&[0; 32]);
    let here = leader.address();
    let far = SocketAddr::from(([192, 0, 2, 1], 1));
    let with = |key: &PassKey, client| [&key.header(client, here)[..], ALIVE].concat();
    assert_eq!(asked(here, &with(&forged, here)).await, b"", "it is forged");
    assert_eq!(asked(here, &with(&real, far)).await, b"", "the leader serves its own machine only");
    assert!(is_alive(&asked(here, &with(&real, here)).await), "it is genuine");
    assert_eq!(asked(follower.address, &with(&real, here)).await, b"", "not a second time");
    let metrics = leader.get("/metrics").await;
    assert!(metrics.text.contains("\norchestrator_refused_prefaces_total 2\n"), "{}", metrics.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_that_is_open_to_the_network_passes_nothing_to_a_leader_on_loopback() {
    let cluster = Cluster::new();
    let leader = cluster.lead("a").await;
    let exposed = |settings| Settings {
        listen: SocketAddr::from(([0, 0, 0, 0], 0)),
        insecure: true,
        status_listen: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        ..settings
    };
    let follower = Following::of(cluster.follow_with("b", exposed).await);
    let port = SocketAddr::from(([127, 0, 0, 1], follower.address.port()));
    assert!(is_alive(&asked(leader.address(), ALIVE).await));
    let begun = Instant::now();
    assert_eq!(asked(port, ALIVE).await, b"");
    assert!(begun.elapsed() < HOLD, "it need not wait");
    let status = follower.status.expect("a status port");
    let ready = answer(leader.client().get(format!("http://{status}/readyz"))).await;
    ready.refused(503, "StoreUnavailable").says("make listen, auth and insecure equal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_without_a_leader_is_held_until_this_process_leads() {
    let cluster = Cluster::new();
    cluster.database.pretend(leader_at(closed_port().await));
    let follower = cluster.pass("b").await;
    let address = follower.address;
    let held = tokio::spawn(async move { asked(address, ALIVE).await });
    // Connected, and nothing sent yet.
    let mut silent = TcpStream::connect(address).await.expect("connect");
    let second = follower.lead().await;
    assert_eq!(second.address(), address);
    assert!(is_alive(&held.await.expect("no panic")), "the same connection is served");
    assert!(is_alive(&exchange(&mut silent, ALIVE).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_is_closed_if_no_leader_appears_in_time() {
    let cluster = Cluster::new();
    cluster.database.pretend(leader_at(closed_port().await));
    let follower = cluster.pass("b").await;
    let begun = Instant::now();
    let held = asked(follower.address, ALIVE);
    // The leader lives, and cannot be reached.
    let beating = async {
        loop {
            cluster.database.beat();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let received = tokio::select! {
        received = held => received,
        () = beating => unreachable!("it beats for ever"),
    };
    assert_eq!(received, b"");
    assert!(begun.elapsed() >= HOLD, "{:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_cuts_the_connections_to_the_former_one() {
    let cluster = Cluster::new();
    let leader = cluster.lead("a").await;
    let follower = cluster.pass("b").await;
    let events = through(&leader, follower.address, Method::GET, "/api/v1/orchestrator/events");
    let mut pieces = events.send().await.expect("a stream").bytes_stream();
    let next = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    // The former leader hangs, so that it ends nothing itself.
    cluster.database.stop("a");
    cluster.database.pretend(leader_at(next.local_addr().expect("a bound socket")));
    let ended = async { while pieces.next().await.is_some_and(|piece| piece.is_ok()) {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("it is cut");
    let mut client = TcpStream::connect(follower.address).await.expect("connect");
    let own = client.local_addr().expect("a connected socket");
    client.write_all(b"\x16").await.expect("send");
    passed(&next, own, follower.address).await;
    cluster.database.go_on();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_end_of_a_connection_may_finish_before_the_other() {
    let cluster = Cluster::new();
    let leader = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    cluster.database.pretend(leader_at(leader.local_addr().expect("a bound socket")));
    let follower = cluster.pass("b").await;
    let mut client = TcpStream::connect(follower.address).await.expect("connect");
    let own = client.local_addr().expect("a connected socket");
    client.write_all(b"a request").await.expect("send");
    client.shutdown().await.expect("finish");
    let mut upstream = passed(&leader, own, follower.address).await;
    let mut received = Vec::new();
    upstream.read_to_end(&mut received).await.expect("receive to the end");
    assert_eq!(received, b"a request");
    upstream.write_all(b"an answer").await.expect("the other direction is open");
    drop(upstream);
    received.clear();
    client.read_to_end(&mut received).await.expect("receive to the end");
    assert_eq!(received, b"an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_whose_own_address_is_that_of_the_leader_does_not_dial_itself() {
    let cluster = Cluster::new();
    let (settings, follower) = cluster.follow("b").await;
    cluster.database.pretend(leader_at(follower.address()));
    let follower = Following::of((settings, follower));
    let address = follower.address;
    let held = tokio::spawn(async move { asked(address, ALIVE).await });
    let server = follower.lead().await;
    assert!(is_alive(&held.await.expect("no panic")));
    let metrics = server.get("/metrics").await;
    assert!(metrics.text.contains("\norchestrator_passed_connections_total 0\n"));
}
