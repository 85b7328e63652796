//! Gates: what holds back executions of a job that could be placed otherwise.

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// What holds executions back. Later releases may add gates, so that a [`ClosedGate`] carries text.
    GateType, "a gate", {
        /// As many executions of the job are live as its `MaxRunning` allows.
        MaxRunning = "MaxRunning",
        /// A group of the job has as many live executions as its limit allows.
        ConcurrencyGroup = "ConcurrencyGroup",
        /// A job that it depends on has not ended as its condition says.
        DependsOn = "DependsOn",
        /// Too little of the quota of the namespace is left for another execution.
        Quota = "Quota",
    }
}

/// A gate that holds executions of a job back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ClosedGate {
    /// `MaxRunning`, `ConcurrencyGroup`, `Quota` or `DependsOn`; later releases may add more.
    #[serde(rename = "Type")]
    pub gate_type: String,
    /// Executions that it holds back.
    pub slots: u32,
    /// RFC 3339, UTC. After a restart of the orchestrator, `DependsOn` is as before, and others are at
    /// the earliest as old as the last event of the job.
    pub since: String,
    /// What would open it, such as `2 of 2 executions run, as MaxRunning allows`.
    pub message: String,
}
