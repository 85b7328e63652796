//! The record of a node that the API returns.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};

use api_types::Timestamp;
use api_types::node::{ComputeNodeInfo, HealthState, Node, NodeHealth, NodeType, PeerInfo};
use api_types::quantity::Capacity;

use crate::health::Health;
use crate::state::node::LiveNode;

// === impl LiveNode: the record ===

impl LiveNode {
    /// The record that the API returns.
    pub(crate) fn wire(&self) -> Node {
        let record = &self.row().record;
        let info = &record.compute_node_info;
        let executions = u64::try_from(self.executions().len()).unwrap_or(u64::MAX);
        let last_heartbeat = match self.row().last_heartbeat {
            Timestamp::ZERO => String::new(),
            moment => moment.rfc3339(),
        };
        Node {
            peer_info: PeerInfo { id: self.row().id, addrs: record.addrs.clone() },
            name: record.name.clone(),
            node_type: NodeType::Compute,
            labels: record.labels.clone(),
            compute_node_info: ComputeNodeInfo {
                execution_engines: info.execution_engines.clone(),
                publishers: info.publishers.clone(),
                storage_sources: info.storage_sources.clone(),
                max_capacity: info.max_capacity,
                available_capacity: Capacity::from(self.free()),
                max_job_requirements: Capacity::from(*self.max_job()),
                running_executions: self.running(),
                enqueued_executions: executions.saturating_sub(self.running()),
            },
            service_version: record.service_version.clone(),
            membership: self.row().membership,
            connection: self.row().connection,
            eligibility: self.row().eligibility,
            health: self.wire_health(),
            refused_agent: self.agents.refused().cloned(),
            reserved_since: self
                .reservation()
                .map_or_else(String::new, |reservation| reservation.since.rfc3339()),
            last_heartbeat,
            idle_since: self.row().idle_since.map_or_else(String::new, Timestamp::rfc3339),
        }
    }

    fn wire_health(&self) -> NodeHealth {
        let troubled = |state, reason: String, since: Timestamp| NodeHealth {
            state,
            reason,
            since: since.rfc3339(),
            next_try: String::new(),
        };
        if self.row().silent_since.is_some() {
            let reason = match self.executions().len() {
                0 => "no heartbeat".to_owned(),
                1 => "no heartbeat; 1 execution waits for it to return".to_owned(),
                waiting => format!("no heartbeat; {waiting} executions wait for it to return"),
            };
            return troubled(HealthState::Silent, reason, self.row().last_heartbeat);
        }
        if let Some(since) = self.stalled_since() {
            let reason = "its agent does not finish what it is doing".to_owned();
            return troubled(HealthState::Stalled, reason, since);
        }
        match &self.row().health {
            Health::Well | Health::Recovered { .. } => NodeHealth::default(),
            Health::BackingOff { until, trouble, .. } => {
                let wait = until.since(trouble.began);
                let next_try = (trouble.since + wait).rfc3339();
                let reason = trouble.reason.to_string();
                let health = troubled(HealthState::BackingOff, reason, trouble.since);
                NodeHealth { next_try, ..health }
            }
            Health::Asked { trouble, .. } | Health::Probing { trouble, .. } => {
                troubled(HealthState::Probing, trouble.reason.to_string(), trouble.since)
            }
        }
    }
}
