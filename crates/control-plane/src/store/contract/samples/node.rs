//! A node with something in every column.

use std::sync::Arc;
use std::time::Duration;

use api_types::Timestamp;
use api_types::engine::EngineType;
use api_types::history::NodeStateType;
use api_types::node::{ComputeNodeInfo, Connection, Eligibility, Membership};
use api_types::protocol::SessionRequest;
use api_types::quantity::Capacity;
use api_types::version::VersionRecord;
use scheduler::change::{Grant, NodeRow};
use scheduler::health::{Health, Trouble};
use scheduler::node_event::{History, Standing};
use scheduler::time::Moment;

use super::Random;

pub(in crate::store::contract) fn node(random: &mut Random) -> NodeRow {
    NodeRow {
        id: random.node_id(),
        session: 9,
        membership: Membership::Approved,
        connection: Connection::Connected,
        eligibility: Eligibility::Draining,
        message: "moves to the other rack".to_owned(),
        drain_deadline: Some(Moment(1_700_000_100_000_000_000)),
        silent_since: Some(Moment(8)),
        grant: Grant { lease: Duration::from_secs(10), kept: Duration::from_secs(30) },
        joined_at: Moment(6),
        idle_since: Some(Timestamp(1_700_000_000_000_000_005)),
        is_forgotten: true,
        health: Health::BackingOff {
            until: Moment(9),
            length: Duration::from_secs(10),
            trouble: Trouble {
                began: Moment(7),
                since: Timestamp(1_700_000_000_000_000_000),
                reason: "docker answers 500".into(),
                accuser: Some("default".into()),
            },
        },
        history: History {
            revision: u64::MAX,
            last_event_time: Timestamp(1_700_000_000_000_000_004),
            standing: Standing {
                session: 9,
                connection: NodeStateType::Connected,
                membership: NodeStateType::Approved,
                eligibility: NodeStateType::Drained,
                health: NodeStateType::BackingOff,
            },
        },
        last_heartbeat: Timestamp(1_700_000_000_000_000_003),
        record: Arc::new(session_request()),
    }
}

pub(in crate::store) fn session_request() -> SessionRequest {
    SessionRequest {
        name: String::new(),
        addrs: vec!["/ip4/10.0.0.1/tcp/1234".to_owned()],
        labels: [("hostname".to_owned(), "a".to_owned())].into(),
        compute_node_info: ComputeNodeInfo {
            execution_engines: vec![EngineType::Docker],
            max_capacity: Capacity { cpu: 3.5, memory: 1 << 33, disk: 5, gpu: 1 },
            ..ComputeNodeInfo::default()
        },
        default_resources: Capacity { cpu: 0.5, memory: 512_000_000, disk: 0, gpu: 0 },
        service_version: VersionRecord::default(),
        probes: false,
        process: None,
    }
}
