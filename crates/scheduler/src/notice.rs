//! What a job says before the reason why it waits for room.

use crate::text::Text;

/// A job's executions on a silent node.
pub(crate) struct SilentNode {
    pub(crate) executions: u32,
    /// Since when the node has been silent, and what follows.
    pub(crate) text: Text,
}

/// The start of a job's message, before the reason why it waits for room; empty texts when there is
/// nothing to report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) retry: Text,
    pub(crate) silence: Text,
}

// === impl Notice ===

impl Notice {
    /// Nothing to report.
    pub(crate) const NONE: Self = Self { retry: Text::Constant(""), silence: Text::Constant("") };
}
