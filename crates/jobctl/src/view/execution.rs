//! Executions in a list.

use api_types::execution::{ComputeState, Execution, NO_EXIT_CODE};
use api_types::words::{desired_word, execution_word};
use serde::Serialize;

use super::tone::compute_tone;
use super::usage;
use crate::output::{Cell, Layout, Listed, age, with_local_times};

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

/// An execution with the name of its node.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct ExecutionRow {
    pub(crate) execution: Execution,
    #[serde(skip)]
    pub(crate) node: String,
}

impl Listed for ExecutionRow {
    const NOUN: &'static str = "executions";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        if layout.wide {
            vec![
                "ID", "NAME", "NODE", "NODE-ID", "STATE", "DESIRED", "EXIT", "CPU-TIME", "PEAK",
                "AGE", "CHANGED", "RETRY-OF", "MESSAGE",
            ]
        } else {
            vec!["ID", "NAME", "NODE", "STATE", "EXIT", "AGE", "MESSAGE"]
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let Self { execution, node } = self;
        let state = execution.compute_state.state_type;
        let state_cell = Cell::new(execution_word(state), compute_tone(state));
        let created = Cell::age(age(layout.now, execution.create_time));
        let exit = Cell::plain(exit_code(execution));
        let message = Cell::plain(with_local_times(&execution.compute_state.message));
        if layout.wide {
            let previous = execution.previous_execution;
            let [cpu_time, peak] = usage::totals(execution.usage.as_ref());
            vec![
                Cell::plain(execution.id.to_string()),
                Cell::plain(&execution.name),
                Cell::plain(node),
                Cell::plain(execution.node_id.to_string()),
                state_cell,
                Cell::plain(desired_word(execution.desired_state.state_type)),
                exit,
                cpu_time,
                peak,
                created,
                Cell::age(age(layout.now, execution.modify_time)),
                Cell::plain(previous.map_or_else(|| "-".to_owned(), |id| id.short())),
                message,
            ]
        } else {
            vec![
                Cell::plain(execution.id.short()),
                Cell::plain(&execution.name),
                Cell::plain(node),
                state_cell,
                exit,
                created,
                message,
            ]
        }
    }

    fn name(&self) -> String {
        self.execution.id.to_string()
    }
}
