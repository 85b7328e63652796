//! What the history of a node says so far.

use api_types::Timestamp;
use api_types::history::NodeStateType;

/// What the history of a node says so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// The number of its events.
    pub revision: u64,
    /// No event of the node has a later time.
    pub last_event_time: Timestamp,
    pub standing: Standing,
}

/// A node in the words of its history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    pub session: u64,
    /// Unknown as long as the history is empty.
    pub connection: NodeStateType,
    pub membership: NodeStateType,
    pub eligibility: NodeStateType,
    pub health: NodeStateType,
}

// === impl History ===

impl Default for History {
    /// Of a node that has never joined.
    fn default() -> Self {
        let standing = Standing {
            session: 0,
            connection: NodeStateType::Unknown,
            membership: NodeStateType::Unknown,
            eligibility: NodeStateType::Unknown,
            health: NodeStateType::Unknown,
        };
        Self { revision: 0, last_event_time: Timestamp::ZERO, standing }
    }
}
