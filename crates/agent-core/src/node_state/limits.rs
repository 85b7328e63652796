//! What this node has and keeps.

use core::time::Duration;

use api_types::quantity::Resources;

/// The limits and properties of this node.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub capacity: Resources,
    /// How long the node remembers a finished execution.
    pub retain: Duration,
    /// The bytes of output and results that all finished executions keep on the node.
    pub retain_bytes: u64,
}
