//! Groups the recorded changes of a job: equal changes of several executions become one line.

use std::collections::BTreeMap;

use api_types::ExecutionId;
use api_types::execution::ComputeState;
use api_types::history::HistoryEvent;
use api_types::job::JobStateType;
use api_types::words::{execution_word, job_word};

use super::terminal::Tone;

/// A change of the job, or of one or more executions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// Time of the first change, RFC 3339.
    pub(super) time: String,
    pub(super) subject: Subject,
    pub(super) state: State,
    pub(super) comment: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Subject {
    Job,
    /// Numbers of the executions.
    Executions(Vec<String>),
}

/// The state after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Job(JobStateType),
    Execution(ComputeState),
}

/// Groups equal changes of `events`. The changes of each execution keep their order.
pub(super) fn grouped(
    events: &[HistoryEvent],
    numbers: &BTreeMap<ExecutionId, String>,
) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for event in events {
        let (time, comment) = (event.time.clone(), event.comment.clone());
        if let Some(change) = event.job_state {
            changes.push(Change {
                time,
                subject: Subject::Job,
                state: State::Job(change.new),
                comment,
            });
        } else if let (Some(change), Some(id)) = (event.execution_state, event.execution_id) {
            let number = numbers.get(&id).cloned().unwrap_or_else(|| id.short());
            let state = State::Execution(change.new);
            let same = changes.iter_mut().find_map(|one| match &mut one.subject {
                Subject::Executions(subject) if one.state == state && one.comment == comment => {
                    Some(subject)
                }
                Subject::Executions(_) | Subject::Job => None,
            });
            match same {
                Some(subject) => {
                    subject.push(number);
                    subject.sort();
                }
                None => {
                    changes.push(Change {
                        time,
                        subject: Subject::Executions(vec![number]),
                        state,
                        comment,
                    });
                }
            }
        }
    }
    changes
}

// === impl Subject ===

impl Subject {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Job => "job".to_owned(),
            Self::Executions(numbers) => numbers.join(" "),
        }
    }
}

// === impl State ===

impl State {
    pub(super) fn text(self) -> String {
        match self {
            Self::Job(state) => job_word(state).to_owned(),
            Self::Execution(state) => execution_word(state).to_owned(),
        }
    }

    pub(super) fn tone(self) -> Tone {
        match self {
            Self::Job(JobStateType::Pending)
            | Self::Execution(
                ComputeState::Undefined | ComputeState::New | ComputeState::AskForBid,
            ) => Tone::Faint,
            Self::Job(JobStateType::Queued | JobStateType::Running)
            | Self::Execution(ComputeState::AskForBidAccepted | ComputeState::BidAccepted) => {
                Tone::Busy
            }
            Self::Job(JobStateType::Completed) | Self::Execution(ComputeState::Completed) => {
                Tone::Good
            }
            Self::Job(JobStateType::Failed | JobStateType::Stopped)
            | Self::Execution(
                ComputeState::AskForBidRejected
                | ComputeState::BidRejected
                | ComputeState::Failed
                | ComputeState::Cancelled,
            ) => Tone::Bad,
        }
    }
}

#[cfg(test)]
mod tests {
    use api_types::history::{EventType, ExecutionStateChange, JobStateChange};
    use api_types::words::ALL_EXECUTION_STATES;
    use api_types::{JobId, NodeId};

    use super::*;

    const FIRST: &str = "e-00000000-0000-4000-8000-000000000001";
    const SECOND: &str = "e-00000000-0000-4000-8000-000000000002";

    fn event(
        execution: Option<&str>,
        new: ComputeState,
        comment: &str,
        time: &str,
    ) -> HistoryEvent {
        let previous = ComputeState::New;
        let job_id: JobId = "j-00000000-0000-4000-8000-000000000000".parse().unwrap();
        let node_id: NodeId = "n-00000000-0000-4000-8000-000000000000".parse().unwrap();
        let job_change =
            JobStateChange { previous: JobStateType::Pending, new: JobStateType::Running };
        HistoryEvent {
            event_type: EventType::ExecutionLevel,
            job_id: Some(job_id),
            node_id: Some(node_id),
            execution_id: execution.map(|id| id.parse().unwrap()),
            job_state: execution.is_none().then_some(job_change),
            execution_state: execution.map(|_| ExecutionStateChange { previous, new }),
            node_state: None,
            new_revision: 1,
            comment: comment.to_owned(),
            time: time.to_owned(),
            job_name: None,
            index: None,
            node_name: None,
        }
    }

    #[test]
    fn every_state_has_the_word_that_other_programs_show() {
        for state in JobStateType::ALL.iter().copied() {
            assert_eq!(State::Job(state).text(), job_word(state));
        }
        for state in ALL_EXECUTION_STATES {
            assert_eq!(State::Execution(state).text(), execution_word(state));
        }
    }

    #[test]
    fn only_equal_changes_of_executions_share_a_line() {
        let numbers = BTreeMap::from([
            (FIRST.parse().unwrap(), "[0]".to_owned()),
            (SECOND.parse().unwrap(), "[1]".to_owned()),
        ]);
        let changes = grouped(
            &[
                event(Some(SECOND), ComputeState::BidAccepted, "started", "1"),
                event(None, ComputeState::Undefined, "an execution runs", "1"),
                event(Some(FIRST), ComputeState::BidAccepted, "started", "2"),
                event(Some(FIRST), ComputeState::Completed, "completed", "3"),
                event(Some(SECOND), ComputeState::Failed, "exit code 1", "4"),
            ],
            &numbers,
        );
        let lines: Vec<_> = changes
            .iter()
            .map(|change| (change.time.as_str(), change.subject.text(), change.state.text()))
            .collect();
        assert_eq!(
            lines,
            [
                ("1", "[0] [1]".to_owned(), "Running".to_owned()),
                ("1", "job".to_owned(), "Running".to_owned()),
                ("3", "[0]".to_owned(), "Completed".to_owned()),
                ("4", "[1]".to_owned(), "Failed".to_owned()),
            ]
        );
    }
}
