//! What is used up or away for now.

use std::time::Duration;

use api_types::{Code, NodeId};

use crate::shares::Refused;

/// What was asked for may have been stored before.
const LEAD_UNCERTAIN: &str = "this orchestrator is not certain that it still leads, so whether it stored anything is unknown";

#[derive(Debug)]
pub(crate) enum Busy {
    /// The pool is used up, or the caller's share of it.
    LimitReached(Refused),
    /// All readers of the store stayed busy too long.
    Readers { waited: Duration },
    /// Only a disconnected node has what was requested.
    NodeAway(NodeId),
    /// Another process may have taken the lead.
    LeadUncertain,
    /// The only node that has what was requested could not send it.
    NodeFailed { node: NodeId, reason: String },
}

// === impl Busy ===

impl Busy {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::LimitReached(_) | Self::Readers { .. } => Code::TooManyRequests,
            Self::NodeAway(_) | Self::NodeFailed { .. } => Code::NodeUnavailable,
            Self::LeadUncertain => Code::StoreUnavailable,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::LimitReached(refused) => refused.to_string(),
            Self::Readers { waited } => {
                format!("the state database was busy for {} seconds", waited.as_secs())
            }
            Self::NodeFailed { node, reason } => {
                format!("node {} has what was requested, but: {reason}", node.short())
            }
            Self::NodeAway(node) => {
                format!("node {} has what was requested, but is not connected", node.short())
            }
            Self::LeadUncertain => LEAD_UNCERTAIN.to_owned(),
        }
    }

    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::LimitReached(refused) => refused.hint(),
            Self::Readers { .. } | Self::NodeFailed { .. } => "try again",
            Self::NodeAway(_) => {
                "try again when the node is back; reading logs with follow waits for it"
            }
            Self::LeadUncertain => "try again, with the idempotency key of a submission",
        }
    }
}
