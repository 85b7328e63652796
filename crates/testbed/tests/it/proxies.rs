//! Agents behind a proxy: their own traffic passes it only if their settings say so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::json;
use testbed::harness::{AgentSpec, ClusterSpec, Link};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A proxy that tunnels to wherever it is asked to; dropping it ends it.
struct Proxy {
    address: SocketAddr,
    /// The servers that it was asked for.
    targets: Arc<Mutex<Vec<String>>>,
    accepting: JoinHandle<()>,
}

// === impl Proxy ===

impl Proxy {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("listen");
        let address = listener.local_addr().expect("an address");
        let targets = Arc::new(Mutex::new(Vec::new()));
        let asked = Arc::clone(&targets);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // Its client sees how it ends.
                tokio::spawn(tunnel(client, Arc::clone(&asked)));
            }
        });
        Self { address, targets, accepting }
    }

    fn targets(&self) -> Vec<String> {
        self.targets.lock().expect("it is whole").clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Answers `CONNECT host:port HTTP/1.1` and passes on what follows.
async fn tunnel(client: TcpStream, asked: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    client.read_line(&mut request).await.ok()?;
    let mut line = String::new();
    while client.read_line(&mut line).await.ok()? > 2 {
        line.clear();
    }
    let target = request.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
    asked.lock().expect("it is whole").push(target.clone());
    let mut server = TcpStream::connect(&target).await.ok()?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
    copy_bidirectional(&mut client, &mut server).await.ok()?;
    Some(())
}

#[tokio::test]
async fn an_agent_passes_the_proxy_of_its_environment_only_if_its_settings_say_so() {
    // An orchestrator on loopback is reached directly in any case.
    let Some(link) = Link::create() else { return };
    let mut cluster =
        ClusterSpec::new().host(link.outside()).protected().start_without_agents().await;
    let proxy = Proxy::start().await;
    let url = format!("http://{}", proxy.address);
    let agent = |way: &str, use_proxy: &str| {
        let agent = AgentSpec::new().engines("noop").label("way", way);
        let agent = agent.setting("https_proxy", &url).setting("http_proxy", &url);
        agent.setting("COMPUTE_AGENT_USE_PROXY", use_proxy)
    };
    cluster.add_agent(&agent("direct", "false")).await;
    assert_eq!(proxy.targets(), Vec::<String>::new());
    cluster.add_agent(&agent("proxy", "true")).await;
    let orchestrator = cluster.orchestrator.base_url().trim_start_matches("https://").to_owned();
    let targets = proxy.targets();
    assert!(!targets.is_empty() && targets.iter().all(|it| *it == orchestrator), "{targets:?}");
    // Work reaches the node, and its reports come back.
    for (way, node) in ["direct", "proxy"].into_iter().zip(&cluster.agents) {
        let engine = json!({ "Type": "noop", "Params": {} });
        let job = json!({
            "Type": "batch", "Tasks": [{ "Name": "main", "Engine": engine }],
            "Constraints": [{ "Key": "way", "Operator": "=", "Values": [way] }],
        });
        assert_eq!(cluster.run_one(&job).await.node_id, node.node_id());
    }
}
