//! What a job says in addition to the reason why it waits for room.

use crate::text::Text;

/// A job's executions on a silent node.
pub(crate) struct SilentNode {
    pub(crate) executions: u32,
    /// Since when the node has been silent, and what follows.
    pub(crate) text: Text,
}

/// What a job's message is made of, apart from the reason why it waits for room; empty texts when
/// there is nothing to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) retry: Text,
    pub(crate) silence: Text,
    /// The repeated failure after which it runs again; said if there is nothing else to say.
    pub(crate) trial: Text,
    /// Why the first slot failed of a job that goes on.
    pub(crate) failure: Text,
}

// === impl Notice ===

impl Notice {
    /// Nothing to report.
    pub(crate) const NONE: Self = Self {
        retry: Text::Constant(""),
        silence: Text::Constant(""),
        trial: Text::Constant(""),
        failure: Text::Constant(""),
    };
}
