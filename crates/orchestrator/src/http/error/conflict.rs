//! Requests that the state of their object does not permit.

use api_types::job::JobStateType;
use api_types::{Code, JobId, NodeId};

use crate::rotation::RotationRefusal;

#[derive(Debug)]
pub(crate) enum Conflict {
    JobFinished {
        job: JobId,
        state: JobStateType,
    },
    /// Indexes of a job run again once none of it runs any more.
    JobNotFinished {
        job: JobId,
        state: JobStateType,
        running: u32,
    },
    /// What is stored of the job's specification cannot be read.
    NoSpecification(JobId),
    /// The request would change the orchestrator's own node record.
    OwnNode(NodeId),
    NamespaceInUse {
        namespace: String,
        reason: String,
    },
    /// A key of the cluster is not replaced.
    Rotation(RotationRefusal),
}

// === impl Conflict ===

impl Conflict {
    pub(super) fn code(&self) -> Code {
        match self {
            Self::JobFinished { .. } => Code::JobFinished,
            Self::JobNotFinished { .. } => Code::JobNotFinished,
            Self::NoSpecification(_) => Code::Conflict,
            Self::OwnNode(_) => Code::NodeConflict,
            Self::NamespaceInUse { .. } | Self::Rotation(_) => Code::Conflict,
        }
    }

    pub(super) fn message(&self) -> String {
        match self {
            Self::JobFinished { job, state } => {
                format!("job {job} is already {state} and cannot be stopped")
            }
            Self::JobNotFinished { job, state, running: 0 } => {
                format!("job {job} is {state}; it can run again once it has ended")
            }
            Self::JobNotFinished { job, state, running } => {
                format!("job {job} is {state}, and {running} of its executions are still stopping")
            }
            Self::NoSpecification(job) => {
                format!("the stored specification of job {job} cannot be read")
            }
            Self::OwnNode(node) => {
                format!("node {} is the orchestrator itself; no action applies to it", node.short())
            }
            Self::NamespaceInUse { namespace, reason } => {
                format!("namespace '{namespace}' cannot be deleted: {reason}")
            }
            Self::Rotation(refusal) => refusal.to_string(),
        }
    }

    pub(super) fn hint(&self) -> &'static str {
        match self {
            Self::JobFinished { .. } => "there is nothing left to stop",
            Self::JobNotFinished { running: 0, .. } => "stop the job, or wait until it ends",
            Self::JobNotFinished { .. } => "try again in some seconds",
            Self::NoSpecification(_) => "submit the job again",
            Self::OwnNode(_) | Self::NamespaceInUse { .. } => "",
            Self::Rotation(refusal) => refusal.hint(),
        }
    }
}
