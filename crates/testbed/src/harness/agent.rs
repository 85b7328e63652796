//! The agents of a test cluster.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::path::Path;

use api_types::NodeId;

use super::binaries::binary;
use super::daemon::Daemon;

/// How an agent is set up.
#[derive(Debug, Clone)]
pub struct AgentSpec {
    labels: Vec<(String, String)>,
    settings: BTreeMap<String, String>,
}

/// A running (or killed) agent; derefs to its [`Daemon`].
#[derive(Debug)]
pub struct Agent {
    node_id: NodeId,
    daemon: Daemon,
}

// === impl AgentSpec ===

impl AgentSpec {
    /// A node with room for four tasks that ask for nothing.
    pub fn new() -> Self {
        Self { labels: Vec::new(), settings: BTreeMap::new() }.cpu("2").memory("4GB")
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
    pub(crate) async fn start(
        name: &str,
        directory: &Path,
        orchestrator: &str,
        spec: &AgentSpec,
    ) -> Self {
        let mut environment = spec.settings.clone();
        let data = directory.join(name).display().to_string();
        environment.insert("COMPUTE_AGENT_DATA_DIR".to_owned(), data);
        environment.insert("COMPUTE_AGENT_ORCHESTRATOR".to_owned(), orchestrator.to_owned());
        if !spec.labels.is_empty() {
            let pairs: Vec<_> =
                spec.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            environment.insert("COMPUTE_AGENT_LABELS".to_owned(), pairs.join(","));
        }
        let daemon = Daemon::start(
            name,
            binary("compute-agent").to_owned(),
            "COMPUTE_AGENT_LISTEN",
            environment,
            directory.join(format!("{name}.log")),
        )
        .await;
        let node = daemon
            .client()
            .agent_node()
            .await
            .unwrap_or_else(|error| panic!("{name} does not say which node it is: {error}"));
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
