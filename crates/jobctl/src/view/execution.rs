//! Executions in a list.

use api_types::execution::{ComputeState, DesiredState, Execution, NO_EXIT_CODE};

use super::{compute_tone, usage};
use crate::output::{Cell, Layout, Listed, age};

/// The word for a state that the API numbers.
pub(crate) const fn state_word(state: ComputeState) -> &'static str {
    match state {
        ComputeState::Undefined => "Undefined",
        ComputeState::New => "New",
        ComputeState::AskForBid => "Offered",
        ComputeState::AskForBidAccepted => "Accepted",
        ComputeState::AskForBidRejected => "Declined",
        ComputeState::BidAccepted => "Running",
        ComputeState::BidRejected => "Unwanted",
        ComputeState::Completed => "Completed",
        ComputeState::Failed => "Failed",
        ComputeState::Cancelled => "Cancelled",
    }
}

const fn desired_word(state: DesiredState) -> &'static str {
    match state {
        DesiredState::Pending => "Pending",
        DesiredState::Running => "Running",
        DesiredState::Stopped => "Stopped",
    }
}

/// The exit code of an ended process, or `-`.
pub(super) fn exit_code(execution: &Execution) -> String {
    let code = execution.run_output.exit_code;
    match execution.compute_state.state_type {
        ComputeState::Completed => code.to_string(),
        ComputeState::Failed | ComputeState::Cancelled if ![0, NO_EXIT_CODE].contains(&code) => {
            code.to_string()
        }
        ComputeState::Undefined
        | ComputeState::New
        | ComputeState::AskForBid
        | ComputeState::AskForBidAccepted
        | ComputeState::AskForBidRejected
        | ComputeState::BidAccepted
        | ComputeState::BidRejected
        | ComputeState::Failed
        | ComputeState::Cancelled => "-".to_owned(),
    }
}

impl Listed for Execution {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        if layout.wide {
            vec![
                "ID", "NAME", "NODE", "STATE", "DESIRED", "EXIT", "CPU-TIME", "PEAK", "AGE",
                "CHANGED", "RETRY-OF", "MESSAGE",
            ]
        } else {
            vec!["ID", "NAME", "NODE", "STATE", "EXIT", "AGE", "MESSAGE"]
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let state = self.compute_state.state_type;
        let state_cell = Cell::new(state_word(state), compute_tone(state));
        let created = Cell::age(age(layout.now, self.create_time));
        let exit = Cell::plain(exit_code(self));
        let message = Cell::plain(&self.compute_state.message);
        if layout.wide {
            let previous = self.previous_execution;
            let [cpu_time, peak] = usage::totals(self.usage.as_ref());
            vec![
                Cell::plain(self.id.to_string()),
                Cell::plain(&self.name),
                Cell::plain(self.node_id.to_string()),
                state_cell,
                Cell::plain(desired_word(self.desired_state.state_type)),
                exit,
                cpu_time,
                peak,
                created,
                Cell::age(age(layout.now, self.modify_time)),
                Cell::plain(previous.map_or_else(|| "-".to_owned(), |id| id.short())),
                message,
            ]
        } else {
            vec![
                Cell::plain(self.id.short()),
                Cell::plain(&self.name),
                Cell::plain(self.node_id.short()),
                state_cell,
                exit,
                created,
                message,
            ]
        }
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}
