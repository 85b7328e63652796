//! The words for states that people read: on pages, in `jobctl`, in the demo and in documents.
//!
//! The API keeps its own spelling; this is the one table that says how it is shown.

use crate::execution::{ComputeState, DesiredState};
use crate::history::NodeStateType;
use crate::job::JobStateType;
use crate::node::{Connection, Eligibility, HealthState, Membership, Node};
use crate::word::UnknownWord;

/// A filter for jobs that have not started: pending or queued.
pub const WAITING: &str = "Waiting";

/// Titles of the columns that show how much of a node is in use: `1.5/2` is used of total.
pub const CPU_USED: &str = "CPU used";
pub const MEMORY_USED: &str = "Memory used";
pub const DISK_USED: &str = "Disk used";
pub const GPU_USED: &str = "GPU used";

pub const fn job_word(state: JobStateType) -> &'static str {
    state.as_str()
}

/// The word for a state that the API numbers.
pub const fn execution_word(state: ComputeState) -> &'static str {
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

/// What the orchestrator wants of an execution.
pub const fn desired_word(state: DesiredState) -> &'static str {
    match state {
        DesiredState::Pending => "Pending",
        DesiredState::Running => "Running",
        DesiredState::Stopped => "Stopped",
    }
}

/// The word for a state in the history of a node.
pub const fn node_word(state: NodeStateType) -> &'static str {
    match state {
        NodeStateType::Unknown => "Unknown",
        NodeStateType::Connected => "Connected",
        NodeStateType::Disconnected => "Silent",
        NodeStateType::Pending => "Pending",
        NodeStateType::Approved => "Approved",
        NodeStateType::Rejected => "Rejected",
        NodeStateType::Eligible => "Eligible",
        NodeStateType::Cordoned => "Cordoned",
        NodeStateType::Draining => "Draining",
        NodeStateType::Drained => "Drained",
        NodeStateType::Healthy => "Healthy",
        NodeStateType::BackingOff => "Backing-off",
        NodeStateType::Probing => "Probing",
        NodeStateType::Stalled => "Stalled",
    }
}

/// The states of a node, the one that matters most first: why it gets no work, or `Connected`.
pub fn node_words(node: &Node) -> Vec<&'static str> {
    let membership = match node.membership {
        Membership::Approved => None,
        Membership::Pending => Some(NodeStateType::Pending),
        Membership::Rejected => Some(NodeStateType::Rejected),
    };
    let connection = match node.connection {
        Connection::Connected => None,
        Connection::Disconnected => Some(NodeStateType::Disconnected),
    };
    let eligibility = match node.eligibility {
        Eligibility::Eligible => None,
        Eligibility::Cordoned => Some(NodeStateType::Cordoned),
        Eligibility::Draining => Some(NodeStateType::Draining),
    };
    let health = match node.health.state {
        // Its connection says the same.
        HealthState::Healthy | HealthState::Silent => None,
        HealthState::BackingOff => Some(NodeStateType::BackingOff),
        HealthState::Probing => Some(NodeStateType::Probing),
        HealthState::Stalled => Some(NodeStateType::Stalled),
    };
    let reasons = [membership, connection, eligibility, health].into_iter().flatten();
    let words: Vec<_> = reasons.map(node_word).collect();
    if words.is_empty() { vec![node_word(NodeStateType::Connected)] } else { words }
}

/// The states that a filter for jobs names, like `waiting,Running`; case is ignored.
pub fn job_states(words: &str) -> Result<Vec<JobStateType>, UnknownWord> {
    let mut states = Vec::new();
    for word in words.split(',').map(str::trim) {
        if word.eq_ignore_ascii_case(WAITING) {
            states.extend([JobStateType::Pending, JobStateType::Queued]);
            continue;
        }
        let state = word.parse().map_err(|unknown: UnknownWord| UnknownWord {
            known: format!("{WAITING}, {}", unknown.known),
            ..unknown
        })?;
        states.push(state);
    }
    Ok(states)
}

/// The states that a filter for executions names, like `Offered,failed`; case is ignored.
pub fn execution_states(words: &str) -> Result<Vec<ComputeState>, UnknownWord> {
    let find = |text: &str| {
        ALL_EXECUTION_STATES
            .iter()
            .copied()
            .find(|state| execution_word(*state).eq_ignore_ascii_case(text))
            .ok_or_else(|| UnknownWord {
                text: text.to_owned(),
                kind: "an execution state",
                known: ALL_EXECUTION_STATES.map(execution_word).join(", "),
            })
    };
    words.split(',').map(|word| find(word.trim())).collect()
}

/// The states of executions that are shown, in the order of their numbers.
pub const ALL_EXECUTION_STATES: [ComputeState; 9] = [
    ComputeState::New,
    ComputeState::AskForBid,
    ComputeState::AskForBidAccepted,
    ComputeState::AskForBidRejected,
    ComputeState::BidAccepted,
    ComputeState::BidRejected,
    ComputeState::Completed,
    ComputeState::Failed,
    ComputeState::Cancelled,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_accept_the_words_that_are_shown() {
        let waiting = [JobStateType::Pending, JobStateType::Queued, JobStateType::Failed];
        assert_eq!(job_states("waiting, Failed").unwrap(), waiting);
        for state in JobStateType::ALL {
            assert_eq!(job_states(job_word(*state)).unwrap(), [*state]);
        }
        for state in ALL_EXECUTION_STATES {
            assert_eq!(execution_states(execution_word(state)).unwrap(), [state]);
        }
        let unknown = job_states("Runing").unwrap_err().to_string();
        assert!(unknown.contains("'Runing'") && unknown.contains("Waiting"), "{unknown}");
        let unknown = execution_states("AskForBid").unwrap_err().to_string();
        assert!(unknown.contains("Offered"), "{unknown}");
    }

    #[test]
    fn words_need_no_quotes_in_a_filter_and_make_one_column() {
        let nodes = NodeStateType::ALL.iter().copied().map(node_word);
        for word in ALL_EXECUTION_STATES.map(execution_word).into_iter().chain(nodes) {
            assert!(word.chars().all(|c| c.is_ascii_alphabetic() || c == '-'), "{word}");
        }
    }
}
