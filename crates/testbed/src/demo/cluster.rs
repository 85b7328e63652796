//! The demo's cluster: the daemons' libraries in this process, and one temporary directory.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api_client::{Client, NodesQuery};
use api_types::engine::EngineType;
use api_types::node::{Connection, Node, NodeType};
use compute_agent::{Agent, RunningAgent};
use orchestrator::Orchestrator;
use tempfile::TempDir;

use super::DemoError;
use super::engine::{Choice, DemoEngine};
use crate::docker;

/// Where the API is when nobody says otherwise.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1234);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const ZONES: [&str; 2] = ["a", "b"];

/// What each agent offers: little enough for any machine, and little enough that a job tried by
/// hand is soon seen to wait for room.
const CPU_MILLIS: u64 = 1000;
const MEMORY_BYTES: u64 = 1_000_000_000;

/// How long the agents may take to join and to find their Docker Engine.
const JOIN_PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks at the nodes.
const INTERVAL: Duration = Duration::from_millis(25);

/// An orchestrator and two agents.
pub struct DemoCluster {
    pub client: Client,
    pub(super) engine: DemoEngine,
    orchestrator: Orchestrator,
    agents: Vec<RunningAgent>,
    directory: TempDir,
}

// === impl DemoCluster ===

impl DemoCluster {
    /// Starts everything; answers when both agents take work.
    pub async fn start(choice: Choice) -> Result<Self, DemoError> {
        let engine = DemoEngine::choose(choice).await?;
        let directory = tempfile::Builder::new().prefix("demo-").tempdir()?;
        let orchestrator = Orchestrator::start(orchestrator::Settings {
            listen: if TcpListener::bind(DEFAULT_ADDRESS).is_ok() {
                DEFAULT_ADDRESS
            } else {
                ANY_PORT
            },
            data_dir: directory.path().join("orchestrator"),
            ..orchestrator::Settings::default()
        })
        .await
        .map_err(|error| DemoError::Start { daemon: "orchestrator", reason: chain(error) })?;
        let base_url = format!("http://{}", orchestrator.address());
        let client = Client::new(&base_url)?;
        let mut cluster = Self { client, engine, orchestrator, agents: Vec::new(), directory };
        for zone in ZONES {
            // On failure what runs already is shut down like after a whole demo.
            let data_dir = cluster.directory.path().join(zone);
            match start_agent(zone, &base_url, data_dir, &cluster.engine).await {
                Ok(agent) => cluster.agents.push(agent),
                Err(error) => {
                    cluster.end().await;
                    return Err(error);
                }
            }
        }
        Ok(cluster)
    }

    pub fn address(&self) -> SocketAddr {
        self.orchestrator.address()
    }

    /// The nodes, once both agents offer the engine; the orchestrator's own record comes first.
    pub async fn ready_nodes(&self) -> Result<Vec<Node>, DemoError> {
        let begin = Instant::now();
        loop {
            let mut nodes = self.client.list_nodes(&NodesQuery::default()).await?.nodes;
            let engine = self.engine.kind();
            if nodes.iter().filter(|node| takes(node, engine)).count() == ZONES.len() {
                nodes.sort_by_key(|node| (node.node_type, node.labels.get("zone").cloned()));
                return Ok(nodes);
            }
            if begin.elapsed() > JOIN_PATIENCE {
                return Err(DemoError::Story(format!(
                    "the agents were not ready within {} s",
                    JOIN_PATIENCE.as_secs()
                )));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Ends the daemons and removes all that they made: containers, then the directory.
    pub async fn end(self) {
        let Self { orchestrator, agents, engine, directory, .. } = self;
        let nodes: Vec<_> = agents.iter().map(|agent| agent.node_id.to_string()).collect();
        for agent in agents {
            agent.shutdown().await;
        }
        if let Err(error) = orchestrator.shutdown().await {
            tracing::warn!(%error, "the orchestrator ended badly");
        }
        if let DemoEngine::Docker { docker, .. } = engine {
            for node in nodes {
                if let Err(error) = docker::remove_containers_of_node(&docker, &node).await {
                    tracing::warn!(%node, %error, "containers may be left behind");
                }
            }
        }
        if let Err(error) = directory.close() {
            tracing::warn!(%error, "the temporary directory may be left behind");
        }
    }
}

async fn start_agent(
    zone: &str,
    base_url: &str,
    data_dir: PathBuf,
    engine: &DemoEngine,
) -> Result<RunningAgent, DemoError> {
    let mut settings = compute_agent::Settings {
        listen: ANY_PORT,
        data_dir,
        orchestrator: base_url.to_owned(),
        labels: BTreeMap::from([("zone".to_owned(), zone.to_owned())]),
        ..compute_agent::Settings::default()
    };
    if let DemoEngine::Wasm { .. } = engine {
        // What is known not to be there need not be looked for and complained about.
        settings.engines = vec![EngineType::Wasm];
    }
    // It ends before a pool would pay.
    settings.docker.sandbox_pool = 0;
    settings.capacity.cpu = Some(CPU_MILLIS);
    settings.capacity.memory = Some(MEMORY_BYTES);
    Agent::start(settings)
        .await
        .map_err(|error| DemoError::Start { daemon: "agent", reason: chain(error) })
}

/// An error with its causes, in one line.
fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

fn takes(node: &Node, engine: EngineType) -> bool {
    node.node_type == NodeType::Compute
        && node.connection == Connection::Connected
        && node.compute_node_info.execution_engines.contains(&engine)
}
