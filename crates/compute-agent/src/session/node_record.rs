//! The node's own record, as it describes itself to the orchestrator.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use agent_core::node_state::Usage;
use agent_core::session::SessionState;
use api_types::engine::EngineType;
use api_types::node::{
    ComputeNodeInfo, Connection, Eligibility, MAX_NODE_NAME_BYTES, Membership, Node, NodeType,
    PeerInfo, check_node_name, multiaddress,
};
use api_types::protocol::{AgentProcess, SessionRequest};
use api_types::quantity::Resources;
use api_types::version::VersionRecord;
use api_types::{NodeId, Timestamp};

use crate::host::clock;
use crate::host::settings::Settings;
use crate::node::effects::EffectRunner;

/// Everything about the node that does not change while the agent runs.
pub(crate) struct NodeRecord {
    pub(crate) node_id: NodeId,
    pub(crate) capacity: Resources,
    pub(crate) default_resources: Resources,
    /// What it asks the orchestrator to be called.
    name: String,
    process: AgentProcess,
    addrs: Vec<String>,
    labels: BTreeMap<String, String>,
    runner: Arc<EffectRunner>,
}

// === impl NodeRecord ===

impl NodeRecord {
    pub(crate) fn new(
        settings: &Settings,
        listen: SocketAddr,
        capacity: Resources,
        runner: Arc<EffectRunner>,
    ) -> Self {
        Self {
            node_id: runner.node_id,
            capacity,
            default_resources: settings.default_resources.resources(),
            name: name(&settings.name, &hostname()),
            process: AgentProcess {
                machine: hostname(),
                boot: clock::boot_id(),
                started: clock::boot_time(),
            },
            addrs: vec![multiaddress(listen)],
            labels: labels(runner.gpus.labels(capacity.gpus), &settings.labels),
            runner,
        }
    }

    pub(crate) fn session_request(&self, engines: &BTreeSet<EngineType>) -> SessionRequest {
        SessionRequest {
            name: self.name.clone(),
            addrs: self.addrs.clone(),
            labels: self.labels.clone(),
            compute_node_info: self.info(engines, Usage::default()),
            default_resources: self.default_resources.into(),
            service_version: VersionRecord::current(),
            probes: true,
            process: Some(self.process.clone()),
        }
    }

    /// The node's view of itself; only the orchestrator knows whether it may take work.
    pub(crate) fn node(
        &self,
        engines: &BTreeSet<EngineType>,
        usage: Usage,
        session: SessionState,
    ) -> Node {
        let (membership, connection, last_heartbeat) = match session {
            SessionState::Joined { membership, renewed_at, .. } => {
                let connection = match session.has_lease(clock::steady()) {
                    true => Connection::Connected,
                    false => Connection::Disconnected,
                };
                (membership, connection, renewed_at)
            }
            SessionState::Joining { renewed_at } => {
                (Membership::Pending, Connection::Disconnected, renewed_at)
            }
        };
        Node {
            peer_info: PeerInfo { id: self.node_id, addrs: self.addrs.clone() },
            name: self.name.clone(),
            node_type: NodeType::Compute,
            labels: self.labels.clone(),
            compute_node_info: self.info(engines, usage),
            service_version: VersionRecord::current(),
            membership,
            connection,
            eligibility: Eligibility::Eligible,
            health: api_types::node::NodeHealth::default(),
            refused_agent: None,
            reserved_since: String::new(),
            last_heartbeat: match last_heartbeat {
                Timestamp::ZERO => String::new(),
                moment => moment.rfc3339(),
            },
            idle_since: String::new(),
        }
    }

    fn info(&self, engines: &BTreeSet<EngineType>, usage: Usage) -> ComputeNodeInfo {
        ComputeNodeInfo {
            execution_engines: engines.iter().copied().collect(),
            publishers: self.runner.files.publishers.offered(),
            storage_sources: self.runner.files.sources.offered(),
            max_capacity: self.capacity.into(),
            available_capacity: self.capacity.minus(&usage.used).into(),
            max_job_requirements: self.capacity.into(),
            running_executions: usage.running_executions,
            enqueued_executions: usage.enqueued_executions,
        }
    }
}

/// The name that is set, or else that of the host as far as it can be one; empty if it cannot, and
/// the orchestrator makes one.
fn name(set: &str, hostname: &str) -> String {
    if !set.is_empty() {
        return set.to_owned();
    }
    let end = hostname.floor_char_boundary(MAX_NODE_NAME_BYTES);
    let name = &hostname[..end];
    if check_node_name(name).is_ok() { name.to_owned() } else { String::new() }
}

fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The labels that the agent detects, overridden by those in the settings.
fn labels(
    gpus: BTreeMap<String, String>,
    set: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let version = VersionRecord::current();
    let mut labels = BTreeMap::from([
        ("Operating-System".to_owned(), version.goos),
        ("Architecture".to_owned(), version.goarch),
        ("hostname".to_owned(), hostname()),
    ]);
    labels.extend(gpus);
    labels.extend(set.clone());
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_is_set_wins_over_that_of_the_host() {
        assert_eq!(name("build-7", "host"), "build-7");
        assert_eq!(name("", "host.example.org"), "host.example.org");
        assert_eq!(name("", &"h".repeat(64)), "h".repeat(63));
        for odd in ["", "a host", "n-0123abcd"] {
            assert_eq!(name("", odd), "", "{odd}");
        }
    }

    #[test]
    fn labels_that_are_set_win_over_those_that_are_found() {
        let set = [("Architecture", "mine"), ("zone", "a")];
        let set = set.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let labels = labels(BTreeMap::new(), &set);
        assert_eq!((labels["Architecture"].as_str(), labels["zone"].as_str()), ("mine", "a"));
        assert_eq!(labels["Operating-System"], "linux");
        assert!(!labels["hostname"].is_empty());
    }
}
