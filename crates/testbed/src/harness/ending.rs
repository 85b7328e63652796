//! Invariants of every accepted job, regardless of faults.

use std::collections::BTreeMap;

use api_client::HistoryQuery;
use api_types::JobId;
use api_types::execution::{ComputeState, Execution};
use api_types::history::{EventType, HistoryEvent};
use api_types::job::JobStateType;

use super::cluster::Cluster;
use super::wait::eventually;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    pub state: JobStateType,
    /// Total number of executions, including lost ones.
    pub executions: usize,
}

// === impl Cluster ===

impl Cluster {
    /// Waits for the end of a job and checks it: every execution has ended, each slot of a completed
    /// job was completed exactly once, no slot was completed twice, and no history has a gap, a
    /// repeat or a step back. Panics otherwise.
    pub async fn ending(&self, id: JobId) -> Ending {
        let (state, revision, count) = eventually(&format!("job {id} has ended"), async || {
            let job = self.client().describe_job(id).await.map_err(|error| error.to_string())?;
            let live: Vec<_> = self
                .executions(id)
                .await
                .into_iter()
                .filter(|one| !one.compute_state.state_type.is_terminal())
                .map(|one| format!("{} is {:?}", one.id, one.compute_state))
                .collect();
            if job.state.state_type.is_terminal() && live.is_empty() {
                Ok((job.state.state_type, job.revision, job.spec.count))
            } else {
                Err(format!("it is {}: {}; {live:?}", job.state.state_type, job.state.message))
            }
        })
        .await;
        let executions = self.executions(id).await;
        let history = self.complete_history(id).await;
        let violations = [
            slots(&executions, state, count),
            numbering(&history, None, revision),
            executions.iter().find_map(|one| transitions(&history, one)),
        ];
        let violations: Vec<_> = violations.into_iter().flatten().collect();
        assert!(violations.is_empty(), "job {id}: {violations:#?}\n{executions:#?}\n{history:#?}");
        Ending { state, executions: executions.len() }
    }

    async fn complete_history(&self, id: JobId) -> Vec<HistoryEvent> {
        let mut query = HistoryQuery { limit: Some(1000), ..HistoryQuery::default() };
        let mut events = Vec::new();
        loop {
            let page = self
                .client()
                .job_history(id, &query)
                .await
                .unwrap_or_else(|error| panic!("cannot read the history: {error}"));
            events.extend(page.history);
            if page.next_token.is_empty() {
                return events;
            }
            query.next_token = Some(page.next_token);
        }
    }
}

fn slots(executions: &[Execution], state: JobStateType, count: u32) -> Option<String> {
    let mut completed: BTreeMap<&str, u32> = BTreeMap::new();
    for execution in executions {
        if execution.compute_state.state_type == ComputeState::Completed {
            *completed.entry(&execution.name).or_default() += 1;
        }
    }
    if let Some((slot, times)) = completed.iter().find(|(_, times)| **times > 1) {
        return Some(format!("{slot} was completed {times} times"));
    }
    let all = completed.len() == usize::try_from(count).unwrap_or(usize::MAX);
    (state == JobStateType::Completed && !all)
        .then(|| format!("the job is completed, but only {completed:?} of {count} slots are"))
}

/// Checks that the events of an execution, or of the job itself, have the revisions 1 to `revision`.
fn numbering(
    history: &[HistoryEvent],
    execution: Option<&Execution>,
    revision: u64,
) -> Option<String> {
    let id = execution.map(|execution| execution.id);
    let kind = match execution {
        Some(_) => EventType::ExecutionLevel,
        None => EventType::JobLevel,
    };
    let revisions: Vec<_> = history
        .iter()
        .filter(|event| event.event_type == kind && event.execution_id == id)
        .map(|event| event.new_revision)
        .collect();
    let expected: Vec<_> = (1..=revision).collect();
    (revisions != expected)
        .then(|| format!("{id:?}: revisions {revisions:?} instead of 1 to {revision}"))
}

/// Checks that each transition begins with the previous state, and that none goes back.
fn transitions(history: &[HistoryEvent], execution: &Execution) -> Option<String> {
    let mut last = None;
    for event in history.iter().filter(|event| event.execution_id == Some(execution.id)) {
        let change = event.execution_state?;
        let (previous, new) = (u8::from(change.previous), u8::from(change.new));
        if previous > new || last.is_some_and(|last| last != previous) {
            return Some(format!("{}: {last:?}, then {previous} to {new}", execution.id));
        }
        last = Some(new);
    }
    numbering(history, Some(execution), execution.revision)
}
