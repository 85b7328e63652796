//! What the agent says about an execution: to the orchestrator, and to clients of the local API.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use api_types::NodeId;
use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, LocalExecution, Report};

use super::{Effect, Execution};

// === impl Execution: reports ===

impl Execution {
    pub(super) fn report(&mut self, state: ComputeState, message: &str) -> Effect {
        Effect::Report(Box::new(self.next_report(state, message)))
    }

    pub(super) fn next_report(&mut self, state: ComputeState, message: &str) -> Report {
        self.reported += 1;
        Report {
            execution_id: self.id,
            sequence: self.reported,
            compute_state: state,
            message: message.to_owned(),
            cause: FailureCause::default(),
            run_output: None,
            published_result: None,
        }
    }

    /// The record that the node-local API returns.
    pub fn local(&self, node_id: NodeId) -> LocalExecution {
        LocalExecution {
            id: self.id,
            job_id: self.work.job_id,
            node_id,
            phase: self.phase.word().to_owned(),
            desired_state: self.desired,
            message: self.phase.message().to_owned(),
        }
    }
}
