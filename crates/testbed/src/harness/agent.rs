//! The agents of a test cluster.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use api_types::NodeId;
use failpoint::STUCK;
use programs::binary;

use super::daemon::{Daemon, Start, Started};
use super::link::Link;

const ENGINES: &str = "COMPUTE_AGENT_ENGINES";
const ORCHESTRATOR: &str = "COMPUTE_AGENT_ORCHESTRATOR";
const JOIN_TOKEN: &str = "COMPUTE_AGENT_JOIN_TOKEN";

/// Configuration of an agent.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    labels: Vec<(String, String)>,
    settings: BTreeMap<String, String>,
    network: Option<Inside>,
}

/// The agent's end of a [`Link`].
#[derive(Debug, Clone)]
struct Inside {
    namespace: String,
    inside: Ipv4Addr,
}

/// A running or killed agent; derefs to its [`Daemon`].
#[derive(Debug)]
pub struct Agent {
    node_id: NodeId,
    daemon: Daemon,
}

// === impl AgentSpec ===

impl AgentSpec {
    /// A node with capacity for four tasks of default size.
    pub fn new() -> Self {
        let none = Self { labels: Vec::new(), settings: BTreeMap::new(), network: None };
        none.cpu("2").memory("4GB").sandbox_pool(0)
    }

    pub fn cpu(self, amount: &str) -> Self {
        self.setting("COMPUTE_AGENT_CAPACITY__CPU", amount)
    }

    pub fn memory(self, amount: &str) -> Self {
        self.setting("COMPUTE_AGENT_CAPACITY__MEMORY", amount)
    }

    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }

    /// Runs the agent at the other end of a link.
    pub fn behind(mut self, link: &Link) -> Self {
        let (namespace, inside) = (link.namespace().to_owned(), link.inside());
        self.network = Some(Inside { namespace, inside });
        self
    }

    /// The engines to offer, instead of the agent's default.
    pub fn engines(self, list: &str) -> Self {
        self.setting(ENGINES, list)
    }

    /// Joins a protected orchestrator with this token, instead of one that the cluster makes.
    pub fn joining(self, token: &str) -> Self {
        self.setting(JOIN_TOKEN, token)
    }

    /// Reaches the orchestrators by this URL, unless the test sets another one.
    pub(crate) fn reaching(mut self, url: &str) -> Self {
        self.settings.entry(ORCHESTRATOR.to_owned()).or_insert_with(|| url.to_owned());
        self
    }

    pub(crate) fn joins(&self) -> bool {
        self.settings.contains_key(JOIN_TOKEN)
    }

    fn offers_wasm(&self) -> bool {
        self.settings.get(ENGINES).is_none_or(|list| list.contains("wasm"))
    }

    pub(crate) fn offers_docker(&self) -> bool {
        self.settings.get(ENGINES).is_none_or(|list| list.contains("docker"))
    }

    /// Size of the pools of network sandboxes, which are removed with the cluster. The default here
    /// is 0: a sandbox costs more than most tests.
    pub fn sandbox_pool(self, size: u16) -> Self {
        self.setting("COMPUTE_AGENT_DOCKER__SANDBOX_POOL", &size.to_string())
            .setting("COMPUTE_AGENT_DOCKER__NETWORK_POOL", &size.to_string())
    }

    /// Any other setting, by the name of its environment variable.
    pub fn setting(mut self, variable: &str, value: &str) -> Self {
        self.settings.insert(variable.to_owned(), value.to_owned());
        self
    }
}

impl Default for AgentSpec {
    fn default() -> Self {
        Self::new()
    }
}

// === impl Agent ===

impl Agent {
    /// It learns of no more tasks that end: they go on for it until another process takes over.
    pub async fn misses_ends(&self) {
        self.failpoints().arm_always("docker.waited", STUCK).await;
    }

    pub(crate) async fn start(
        name: &str,
        directory: &Path,
        orchestrator: &Daemon,
        spec: &AgentSpec,
    ) -> Self {
        let mut environment = spec.settings.clone();
        let data = directory.join(name).display().to_string();
        let data = environment.entry("COMPUTE_AGENT_DATA_DIR".to_owned()).or_insert(data).clone();
        let token_file = orchestrator.admin_token().map(|_| Path::new(&data).join("agent.token"));
        environment
            .entry(ORCHESTRATOR.to_owned())
            .or_insert_with(|| orchestrator.base_url().to_owned());
        if spec.offers_wasm() {
            let runner = binary("wasm-runner").display().to_string();
            environment.entry("COMPUTE_AGENT_WASM__RUNNER".to_owned()).or_insert(runner);
        }
        if !spec.labels.is_empty() {
            let pairs: Vec<_> =
                spec.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            environment.insert("COMPUTE_AGENT_LABELS".to_owned(), pairs.join(","));
        }
        let (host, namespace) = match &spec.network {
            None => (Ipv4Addr::LOCALHOST, None),
            Some(network) => (network.inside, Some(network.namespace.clone())),
        };
        let start = Start {
            name: name.to_owned(),
            program: binary("compute-agent").to_owned(),
            host,
            listen_variable: "COMPUTE_AGENT_LISTEN",
            environment,
            namespace,
            directory: directory.to_owned(),
            protected: None,
            token_file,
            started: Started::Responds,
        };
        let daemon = Daemon::start(start).await;
        let node = daemon
            .client()
            .agent_node()
            .await
            .unwrap_or_else(|error| panic!("{name} does not report its node: {error}"));
        Self { node_id: node.peer_info.id, daemon }
    }

    pub fn node_id(&self) -> NodeId {
        self.node_id
    }
}

impl Deref for Agent {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}

impl DerefMut for Agent {
    fn deref_mut(&mut self) -> &mut Daemon {
        &mut self.daemon
    }
}
