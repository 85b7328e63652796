//! A thousand agents that know one follower only, whose leader is killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use api_client::{Client, NodesQuery};
use api_types::NodeId;
use api_types::node::{Connection, Node, NodeType};
use api_types::protocol::Heartbeat;
use api_types::quantity::Capacity;
use futures_util::StreamExt;
use testbed::fleet::record;
use testbed::harness::eventually_within;
use uuid::Uuid;

use super::processes::cluster;

const AGENTS: u64 = 1000;

/// For all of them, on a busy machine.
const JOINED_WITHIN: Duration = Duration::from_secs(120);

/// A takeover, and the wait of an agent until it tries again.
const BACK_WITHIN: Duration = Duration::from_secs(15);

/// Each agent has a stream, and a connection for its heartbeats.
const CONNECTIONS: u64 = 2 * AGENTS;

const BYTES_PER_CONNECTION: u64 = 32 * 1024;

const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest pause before an agent opens its stream again, as that of a real one.
const MAX_PAUSE_MS: u64 = 1000;

struct Agent {
    client: Client,
    node: NodeId,
    number: u64,
    has_stream: Arc<AtomicBool>,
}

// === impl Agent ===

impl Agent {
    async fn run(self) {
        let Self { client, node, number, has_stream } = self;
        let pause = Duration::from_millis(number * MAX_PAUSE_MS / AGENTS);
        let joined = loop {
            match client.join(node, &record(1.0)).await {
                Ok(joined) => break joined,
                Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
                Err(error) => panic!("{node} cannot join: {error}"),
            }
        };
        let interval = Duration::from_secs(joined.heartbeat_seconds.max(1));
        tokio::spawn(renew(client.clone(), node, joined.session, interval, pause));
        loop {
            match client.assignments(node, joined.session).await {
                Ok(mut lines) => {
                    while let Some(Ok(_)) = lines.next().await {
                        has_stream.store(true, Ordering::Release);
                    }
                }
                Err(error) if error.is_transient() => {}
                Err(error) => panic!("{node} has lost its session: {error}"),
            }
            has_stream.store(false, Ordering::Release);
            tokio::time::sleep(pause).await;
        }
    }
}

async fn renew(client: Client, node: NodeId, session: u64, interval: Duration, pause: Duration) {
    let heartbeat = Heartbeat {
        session,
        used_capacity: Capacity::default(),
        running_executions: 0,
        enqueued_executions: 0,
        stalled_millis: 0,
        lease_seconds: 0,
        probed: None,
    };
    tokio::time::sleep(pause).await;
    loop {
        while let Err(error) = client.heartbeat(node, &heartbeat, HEARTBEAT_TIMEOUT).await {
            assert!(error.is_transient(), "{node} has lost its session: {error}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        tokio::time::sleep(interval).await;
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = anonymous.and_then(|text| text.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.map(|kilobytes: u64| kilobytes * 1024).expect("a number")
}

async fn all_have_streams(streams: &[Arc<AtomicBool>], limit: Duration) {
    eventually_within(limit, "each agent has its stream", async || {
        match streams.iter().filter(|stream| !stream.load(Ordering::Acquire)).count() {
            0 => Ok(()),
            without => Err(format!("{without} have none")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn a_thousand_agents_are_back_through_one_follower_and_none_is_lost() {
    let Some(mut cluster) = cluster(2).await else { return };
    let follower = cluster.orchestrator_at(1).pid().expect("it runs");
    let client = cluster.orchestrator_at(1).client().clone();
    let before = resident_bytes(follower);
    let streams: Vec<Arc<AtomicBool>> = (0..AGENTS).map(|_| Arc::default()).collect();
    for (number, has_stream) in (0..).zip(&streams) {
        let node = NodeId::from_uuid(Uuid::from_u128(u128::from(number) + (1 << 100)));
        // Each agent has its own connections.
        let client = Client::new(client.base_url()).expect("a client");
        let agent = Agent { client, node, number, has_stream: Arc::clone(has_stream) };
        tokio::spawn(agent.run());
    }
    all_have_streams(&streams, JOINED_WITHIN).await;
    let grown = resident_bytes(follower).saturating_sub(before);
    let each = grown / CONNECTIONS;

    cluster.orchestrator_at_mut(0).kill();
    let killed = Instant::now();
    // What follows the end of the process at the other end of each connection takes a moment.
    eventually_within(BACK_WITHIN, "a stream ends", async || {
        let ended = streams.iter().any(|stream| !stream.load(Ordering::Acquire));
        ended.then_some(()).ok_or_else(|| "none has ended".to_owned())
    })
    .await;
    all_have_streams(&streams, BACK_WITHIN).await;
    let back = killed.elapsed();
    assert_eq!(cluster.leader().await, 1);
    eprintln!("{AGENTS} agents are back after {back:.1?}; {each} bytes per connection");
    assert!(back <= BACK_WITHIN, "{back:?}");
    assert!(each <= BYTES_PER_CONNECTION, "{each} bytes per connection");

    let mut connected = 0;
    // The orchestrator's own record is one of the nodes.
    let mut query = NodesQuery::default();
    loop {
        let page = client.list_nodes(&query).await.expect("the nodes");
        let is_connected = |node: &&Node| {
            node.node_type == NodeType::Compute && node.connection == Connection::Connected
        };
        connected += page.nodes.iter().filter(is_connected).count();
        if page.next_token.is_empty() {
            break;
        }
        query.next_token = Some(page.next_token);
    }
    assert_eq!(u64::try_from(connected), Ok(AGENTS), "none is lost");
}
