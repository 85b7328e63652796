//! What is kept of the gate of a job while it is closed.

use api_types::Timestamp;
use api_types::gate::GateType;

/// The gate of a job that is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gate {
    pub(crate) gate_type: GateType,
    /// Since when it has held slots of the job without interruption.
    pub(crate) since: Timestamp,
}
