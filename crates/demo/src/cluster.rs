//! The demo's cluster: the daemons' libraries in this process, with a temporary directory.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use api_client::{Client, NodesQuery};
use api_types::engine::EngineType;
use api_types::node::{Connection, Node, NodeType};
use compute_agent::{Agent, RunningAgent};
use orchestrator::{Orchestrator, StartError};
use tempfile::TempDir;

use super::engine::{Choice, DemoEngine};
use super::error::DemoError;
use task_image::docker;

/// The preferred address of the API.
pub const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 1234);

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

const ZONES: [&str; 2] = ["a", "b"];

/// Capacity of each agent: small enough for any machine, and for a few more jobs of a user to have
/// to wait.
const CPU_MILLIS: u64 = 1000;
const MEMORY_BYTES: u64 = 1_000_000_000;

/// The program that runs wasm programs.
const RUNNER: &str = "wasm-runner";

/// Time limit for the agents to join and to connect to the Docker Engine.
const JOIN_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between requests for the nodes.
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
    /// Starts the cluster. [`Self::ready_nodes`] waits for the agents.
    pub async fn start(choice: Choice) -> Result<Self, DemoError> {
        let engine = DemoEngine::choose(choice).await?;
        let directory = tempfile::Builder::new().prefix("demo-").tempdir()?;
        let start = |listen| {
            Orchestrator::start(orchestrator::Settings {
                listen,
                data_dir: directory.path().join("orchestrator"),
                ..orchestrator::Settings::default()
            })
        };
        let started = match start(DEFAULT_ADDRESS).await {
            Err(StartError::Listen { .. }) => start(ANY_PORT).await,
            started => started,
        };
        let orchestrator = started
            .map_err(|error| DemoError::Start { daemon: "orchestrator", reason: chain(error) })?;
        let base_url = format!("http://{}", orchestrator.address());
        let client = Client::new(&base_url)?;
        let mut cluster = Self { client, engine, orchestrator, agents: Vec::new(), directory };
        for zone in ZONES {
            // A failure shuts down the running parts, as at the end of the demo.
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

    /// Waits until both agents offer the engine; returns the nodes, the orchestrator first.
    pub async fn ready_nodes(&self) -> Result<Vec<Node>, DemoError> {
        let begin = Instant::now();
        loop {
            let mut nodes = self.client.list_nodes(&NodesQuery::default()).await?.nodes;
            let engine = self.engine.kind();
            if nodes.iter().filter(|node| accepts(node, engine)).count() == ZONES.len() {
                nodes.sort_by_key(|node| (node.node_type, node.labels.get("zone").cloned()));
                return Ok(nodes);
            }
            if begin.elapsed() > JOIN_TIMEOUT {
                return Err(DemoError::Story(format!(
                    "the agents were not ready within {} s",
                    JOIN_TIMEOUT.as_secs()
                )));
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Stops the daemons and removes their containers and the directory.
    pub async fn end(self) {
        let Self { orchestrator, agents, engine, directory, .. } = self;
        let nodes: Vec<_> = agents.iter().map(|agent| agent.node_id.to_string()).collect();
        for agent in agents {
            agent.shutdown().await;
        }
        if let Err(error) = orchestrator.shutdown().await {
            tracing::warn!(%error, "cannot stop the orchestrator cleanly");
        }
        if let DemoEngine::Docker { docker, .. } = engine {
            for node in nodes {
                if let Err(error) = docker::remove_containers_of_node(&docker, &node).await {
                    tracing::warn!(%node, %error, "cannot remove all containers");
                }
            }
        }
        for zone in ZONES {
            programs::end_runners(&directory.path().join(zone));
        }
        if let Err(error) = directory.close() {
            tracing::warn!(%error, "cannot remove the temporary directory");
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
    // Only engines that are there: an agent warns of each that it lacks.
    settings.engines = vec![engine.kind()];
    match (engine, programs::next_to_this_program(RUNNER)) {
        (DemoEngine::Docker { .. }, None) => {}
        (DemoEngine::Docker { .. }, Some(runner)) => {
            settings.engines.push(EngineType::Wasm);
            settings.wasm.runner = runner.display().to_string();
        }
        (DemoEngine::Wasm { .. }, Some(runner)) => {
            settings.wasm.runner = runner.display().to_string();
        }
        (DemoEngine::Wasm { .. }, None) => settings.wasm.runner = built_runner().await?,
    }
    // The demo is too short for a pool to be useful.
    settings.docker.sandbox_pool = 0;
    settings.docker.network_pool = 0;
    settings.capacity.cpu = Some(CPU_MILLIS);
    settings.capacity.memory = Some(MEMORY_BYTES);
    Agent::start(settings)
        .await
        .map_err(|error| DemoError::Start { daemon: "agent", reason: chain(error) })
}

/// Only a demo without docker needs the runner, so cargo builds it when the first such demo starts.
async fn built_runner() -> Result<String, DemoError> {
    let built = tokio::task::spawn_blocking(|| programs::built(RUNNER)).await;
    let built = built.unwrap_or_else(|error| Err(anyhow::Error::from(error)));
    let path = built.map_err(|error| {
        DemoError::Story(format!(
            "there is no {RUNNER} next to this program, and it cannot be built ({error:#}); build it \
             with `cargo build --release --workspace`"
        ))
    })?;
    Ok(path.display().to_string())
}

/// An error with its causes in one line.
fn chain(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::new(error))
}

fn accepts(node: &Node, engine: EngineType) -> bool {
    node.node_type == NodeType::Compute
        && node.connection == Connection::Connected
        && node.compute_node_info.execution_engines.contains(&engine)
}
