//! Heartbeats, and the nodes that send none, as records.

use alloc::collections::BTreeSet;
use core::time::Duration;

use api_types::NodeId;
use api_types::protocol::ProbeOutcome;

use crate::time::Moment;

/// While most nodes are silent, the scheduler assumes for at most this long that the orchestrator
/// is the one cut off.
pub(crate) const MASS_HOLD: Duration = Duration::from_secs(120);

/// A heartbeat, as recorded on arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatArrival {
    pub node: NodeId,
    pub session: u64,
    pub at: Moment,
    /// How long the agent's current operation has been running.
    pub stalled: Duration,
    /// The lease in the response to this heartbeat.
    pub granted: Duration,
    /// The lease that the agent keeps to, if it says so.
    pub kept: Option<Duration>,
    /// The outcome of the probe that its agent was asked for.
    pub probed: Option<ProbeOutcome>,
}

/// The lease that a node holds, and what its agent is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLease {
    pub session: u64,
    pub lease: Duration,
    /// The number of the probe.
    pub probe: Option<u64>,
}

/// The silent nodes, and whether the silence is attributed to the orchestrator itself.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    /// Ordered by when each node was last heard from.
    pub(crate) nodes: BTreeSet<(Moment, NodeId)>,
    pub(crate) mass: Mass,
    /// Nothing is given up before this moment: until one lease earlier, no heartbeat could arrive.
    pub(crate) not_before: Moment,
    /// Most nodes reconnected recently; until this moment, the scheduler expects the others to
    /// follow.
    pub(crate) others_may_follow_until: Moment,
}

/// Whether most nodes have fallen silent together.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mass {
    #[default]
    None,
    /// Nothing is given up before this moment.
    Holding(Moment),
    /// The mass silence lasted too long to keep waiting.
    Spent,
}

// === impl Mass ===

impl Mass {
    /// Until when nothing is given up because most nodes are silent.
    pub(crate) fn held_until(self) -> Option<Moment> {
        match self {
            Self::Holding(until) => Some(until),
            Self::None | Self::Spent => None,
        }
    }
}
