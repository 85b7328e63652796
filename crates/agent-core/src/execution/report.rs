//! What the agent says about an execution: to the orchestrator, and to clients of the local API.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;

use api_types::NodeId;
use api_types::engine::PublisherType;
use api_types::execution::ComputeState;
use api_types::job::Task;
use api_types::protocol::{LocalExecution, Report};

use super::{Effect, Execution};

// === impl Execution: reports ===

impl Execution {
    pub(super) fn report(&mut self, state: ComputeState, message: &str) -> Effect {
        Effect::Report(Box::new(self.next_report(state, message)))
    }

    /// Whether collecting and publishing may take longer than a moment.
    pub(super) fn leaves_results(&self) -> bool {
        let Task { publisher, result_paths, .. } = &self.work.task;
        let publishes = match publisher.publisher_type {
            PublisherType::None | PublisherType::Noop => false,
            PublisherType::Local | PublisherType::S3 | PublisherType::Ipfs => true,
        };
        publishes || !result_paths.is_empty()
    }

    /// Tells the orchestrator that only the disk is still in use.
    pub(super) fn report_process_ended(&mut self) -> Effect {
        let message = "its process has ended; its results are being collected";
        let report = self.next_report(ComputeState::BidAccepted, message);
        Effect::Report(Box::new(Report { process_ended: true, ..report }))
    }

    pub(super) fn next_report(&mut self, state: ComputeState, message: &str) -> Report {
        self.reported += 1;
        Report { message: message.to_owned(), ..Report::new(self.id, self.reported, state) }
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
