//! The name that no node may have.

/// The name of the orchestrator's own record.
pub const OWN_NAME: &str = "orchestrator";
