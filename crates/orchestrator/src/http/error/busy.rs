//! What is used up or away for now.

use std::time::Duration;

use api_types::{Code, NodeId};

use crate::shares::Refused;

#[derive(Debug)]
pub(crate) enum Busy {
    /// The pool is used up, or the caller's share of it.
    LimitReached(Refused),
    /// All readers of the store stayed busy too long.
    Readers { waited: Duration },
    /// Only a disconnected node has what was requested.
    NodeAway(NodeId),
}

// === impl Busy ===

impl Busy {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::LimitReached(_) | Self::Readers { .. } => Code::TooManyRequests,
            Self::NodeAway(_) => Code::NodeUnavailable,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::LimitReached(refused) => refused.to_string(),
            Self::Readers { waited } => {
                format!("the state database was busy for {} seconds", waited.as_secs())
            }
            Self::NodeAway(node) => {
                format!("node {} has what was requested, but is not connected", node.short())
            }
        }
    }

    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::LimitReached(refused) => refused.hint(),
            Self::Readers { .. } => "try again",
            Self::NodeAway(_) => {
                "try again when the node is back; reading logs with follow waits for it"
            }
        }
    }
}
