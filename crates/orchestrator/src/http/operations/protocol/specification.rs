//! The specifications that nodes receive, and what happens if one cannot be read.

use std::sync::Arc;

use api_types::execution::{ComputeState, DesiredState};
use api_types::job::JobSpec;
use api_types::{ExecutionId, JobId, NodeId};
use control_plane::store::{Reads, StoreError};
use scheduler::input::Input;

use crate::http::api::Api;
use crate::http::error::{Failure, Kind};
use crate::http::lookup;
use crate::specs::KnownSpec;

/// A specification from the store, or why it cannot be read, which no other try would change.
pub(super) fn load(
    api: &Api,
    reads: &dyn Reads,
    (job, version): (JobId, u64),
) -> Result<Result<KnownSpec, String>, Failure> {
    let json = match reads.specification(job, version) {
        Ok(Some(json)) => json,
        Ok(None) => return Ok(Err("it is missing".to_owned())),
        Err(error @ (StoreError::Damaged { .. } | StoreError::Record { .. })) => {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    Ok(match serde_json::from_str(&json) {
        Ok(spec) => {
            let spec: Arc<JobSpec> = Arc::new(spec);
            api.view.specs().insert(job, version, Arc::clone(&spec), json.len());
            Ok(KnownSpec { spec, bytes: json.len() })
        }
        Err(error) => Err(error.to_string()),
    })
}

/// An execution that its node may start or run.
pub(super) struct Placed {
    /// Of its job.
    pub(super) spec: Arc<JobSpec>,
    pub(super) index: u32,
}

/// The execution, if it is this node's to start or to run.
pub(super) async fn placed(
    api: &Arc<Api>,
    node: NodeId,
    execution: ExecutionId,
) -> Result<Placed, Failure> {
    let reader = Arc::clone(api);
    let read = move |reads: &dyn Reads| {
        let absent = || lookup::absent(Kind::Execution, &execution.to_string());
        let row = reads.execution(execution)?.ok_or_else(absent)?.row;
        if row.node != node || !may_run(row.compute, row.desired) {
            return Err(absent());
        }
        let spec = match reader.view.specs().get(row.job, row.version) {
            Some(spec) => Ok(spec),
            None => load(&reader, reads, (row.job, row.version))?.map(|known| known.spec),
        };
        Ok((row.job, row.index, spec))
    };
    let (job, index, spec) = api.read_for_agent(read).await?;
    match spec {
        Ok(spec) => Ok(Placed { spec, index }),
        Err(reason) => {
            unreadable(api, job, execution, &reason).await?;
            Err(Failure::Internal { cause: format!("read the specification of {job}: {reason}") })
        }
    }
}

fn may_run(compute: ComputeState, desired: DesiredState) -> bool {
    match compute {
        ComputeState::AskForBidAccepted | ComputeState::BidAccepted => {
            desired == DesiredState::Running
        }
        ComputeState::Undefined
        | ComputeState::New
        | ComputeState::AskForBid
        | ComputeState::AskForBidRejected
        | ComputeState::BidRejected
        | ComputeState::Completed
        | ComputeState::Failed
        | ComputeState::Cancelled => false,
    }
}

/// Fails the job, unless the node runs the execution already.
pub(super) async fn unreadable(
    api: &Api,
    job: JobId,
    execution: ExecutionId,
    reason: &str,
) -> Result<(), Failure> {
    log_unreadable(job, execution, reason);
    let reason = reason.to_owned();
    api.handle.call(Input::Unreadable { execution, reason }).await?;
    Ok(())
}

pub(super) fn log_unreadable(job: JobId, execution: ExecutionId, reason: &str) {
    tracing::error!(
        %job, %execution, reason,
        "the specification of a job cannot be read: the state database is damaged"
    );
}
