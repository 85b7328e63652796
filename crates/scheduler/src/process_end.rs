//! A process has ended and its results are being published: of its room, only the disk is in use.
//!
//! It costs one record, one event, and the placements on a node that gains capacity.

use api_types::ExecutionId;
use api_types::execution::ComputeState;
use api_types::quantity::Resources;

use crate::change::ExecutionRow;
use crate::execution::or_else;
use crate::text::Text;
use crate::{Scheduler, Turn};

// === impl ExecutionRow ===

impl ExecutionRow {
    /// What it holds of its node.
    pub(crate) fn held(&self) -> Resources {
        match self.process_ended_at {
            None => self.resources,
            Some(_) => self.resources.without_process(),
        }
    }
}

// === impl Scheduler: ends of processes ===

impl Scheduler {
    /// BidAccepted => BidAccepted: what waits for CPU, memory or GPUs need not wait for a publisher.
    pub(crate) fn process_ended(&mut self, turn: &mut Turn<'_>, id: ExecutionId, message: Text) {
        self.start(turn, id, Text::Constant("started"));
        let Some(row) = self.executions.get_mut(&id) else { return };
        if row.compute != ComputeState::BidAccepted || row.process_ended_at.is_some() {
            return;
        }
        let message = or_else(message, "its process has ended");
        let (node_id, job_id, held) = (row.node, row.job, row.held());
        row.process_ended_at = Some(turn.now);
        row.compute_message.clone_from(&message);
        let freed = held.minus(&row.held());
        self.observe(turn, id, ComputeState::BidAccepted, message);
        let is_finite = self.jobs.get(&job_id).is_some_and(|job| job.plan.job_type.is_finite());
        if let Some(node) = self.nodes.get_mut(&node_id) {
            node.used = node.used.minus(&freed);
            if !is_finite {
                node.unending = node.unending.minus(&freed);
            }
            self.queue.reload(node);
            self.touched.insert(node_id);
        }
        self.review_reservation(turn, node_id);
        self.fill_node(turn, node_id);
    }
}
