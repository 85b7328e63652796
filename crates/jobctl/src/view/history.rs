//! Events of a job's or a node's history in a list.

use std::time::Duration;

use api_types::Timestamp;
use api_types::history::{EventType, HistoryEvent, NodeStateType};
use api_types::words::{execution_word, job_word, node_word};
use serde::Serialize;

use super::tone::{compute_tone, job_tone};
use crate::output::{
    Cell, LOCAL_TIME, Layout, Listed, Tone, local_word, short_time, time_of_day, with_local_times,
};

/// Shown in place of an absent execution or node.
pub(super) const NONE: &str = "-";

pub(super) fn change(event: &HistoryEvent) -> (String, Tone) {
    let arrow = |previous: &str, new: &str| {
        if previous == new { new.to_owned() } else { format!("{previous} > {new}") }
    };
    match (event.job_state, event.execution_state, event.node_state) {
        (Some(change), _, _) => {
            (arrow(job_word(change.previous), job_word(change.new)), job_tone(change.new))
        }
        (None, Some(change), _) => (
            arrow(execution_word(change.previous), execution_word(change.new)),
            compute_tone(change.new),
        ),
        (None, None, Some(change)) => {
            (arrow(node_word(change.previous), node_word(change.new)), node_tone(change.new))
        }
        (None, None, None) => (NONE.to_owned(), Tone::Plain),
    }
}

const fn node_tone(state: NodeStateType) -> Tone {
    match state {
        NodeStateType::Connected
        | NodeStateType::Approved
        | NodeStateType::Eligible
        | NodeStateType::Healthy => Tone::Good,
        NodeStateType::Pending
        | NodeStateType::Cordoned
        | NodeStateType::Draining
        | NodeStateType::Drained
        | NodeStateType::Probing => Tone::Waiting,
        NodeStateType::Unknown
        | NodeStateType::Disconnected
        | NodeStateType::Rejected
        | NodeStateType::BackingOff
        | NodeStateType::Stalled => Tone::Bad,
    }
}

/// An event of one node, whose columns are those that differ from event to event.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct NodeEvent {
    event: HistoryEvent,
    #[serde(skip)]
    step: Option<Duration>,
}

/// An event of a job, with what its execution and its node are called.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct JobEvent {
    event: HistoryEvent,
    #[serde(skip)]
    step: Option<Duration>,
    #[serde(skip)]
    execution: String,
    #[serde(skip)]
    node: String,
}

// === impl NodeEvent ===

impl NodeEvent {
    pub(crate) fn all(events: Vec<HistoryEvent>) -> Vec<Self> {
        with_steps(events).map(|(event, step)| Self { event, step }).collect()
    }
}

// === impl JobEvent ===

impl JobEvent {
    /// `names` has what an event's execution and node are called.
    pub(crate) fn all(
        events: Vec<HistoryEvent>,
        names: impl Fn(&HistoryEvent) -> (Option<String>, Option<String>),
    ) -> Vec<Self> {
        let row = |(event, step)| {
            let (execution, node) = names(&event);
            let or_none = |name: Option<String>| name.unwrap_or_else(|| NONE.to_owned());
            Self { execution: or_none(execution), node: or_none(node), event, step }
        };
        with_steps(events).map(row).collect()
    }
}

/// Each event with the time since the one before it in the list.
fn with_steps(events: Vec<HistoryEvent>) -> impl Iterator<Item = (HistoryEvent, Option<Duration>)> {
    let mut before = None;
    events.into_iter().map(move |event| {
        let time = Timestamp::parse(&event.time);
        let step =
            before.zip(time).map(|(before, time): (Timestamp, Timestamp)| time.since(before));
        before = time;
        (event, step)
    })
}

/// The cells `TIME` and `STEP`.
fn moment(event: &HistoryEvent, step: Option<Duration>, layout: &Layout) -> [Cell; 2] {
    let time = match layout.wide {
        true => local_word(&event.time),
        false => time_of_day(&event.time, layout.now),
    };
    let step = step.map_or_else(|| NONE.to_owned(), |step| format!("+{}", short_time(step)));
    [Cell::plain(time), Cell::plain(step)]
}

/// Events have no ID; the name is their subject with its new revision.
fn name(event: &HistoryEvent) -> String {
    let ids = [
        event.execution_id.map(|id| id.to_string()),
        event.job_id.map(|id| id.to_string()),
        event.node_id.map(|id| id.to_string()),
    ];
    let about = ids.into_iter().flatten().next().unwrap_or_default();
    format!("{about}@{}", event.new_revision)
}

impl Listed for NodeEvent {
    const NOUN: &'static str = "events";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        match layout.wide {
            true => vec!["TIME", "STEP", "REV", "CHANGE", "COMMENT"],
            false => vec![LOCAL_TIME, "STEP", "CHANGE", "COMMENT"],
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let Self { event, step } = self;
        let mut cells = moment(event, *step, layout).to_vec();
        if layout.wide {
            cells.push(Cell::plain(event.new_revision.to_string()));
        }
        let (change, tone) = change(event);
        cells.extend([Cell::new(change, tone), Cell::plain(with_local_times(&event.comment))]);
        cells
    }

    fn name(&self) -> String {
        name(&self.event)
    }
}

impl Listed for JobEvent {
    const NOUN: &'static str = "events";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        match layout.wide {
            true => vec![
                "TIME",
                "STEP",
                "LEVEL",
                "INDEX",
                "EXECUTION",
                "NODE",
                "REV",
                "CHANGE",
                "COMMENT",
            ],
            false => vec![LOCAL_TIME, "STEP", "INDEX", "NODE", "CHANGE", "COMMENT"],
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let Self { event, step, execution, node } = self;
        let (change, tone) = change(event);
        let level = match event.event_type {
            EventType::JobLevel => "job",
            EventType::ExecutionLevel => "execution",
            EventType::NodeLevel => "node",
        };
        let mut cells = moment(event, *step, layout).to_vec();
        if layout.wide {
            cells.push(Cell::plain(level));
        }
        cells.push(Cell::plain(execution));
        if layout.wide {
            let id = event.execution_id.map_or_else(|| NONE.to_owned(), |id| id.to_string());
            cells.push(Cell::plain(id));
        }
        cells.push(Cell::plain(node));
        if layout.wide {
            cells.push(Cell::plain(event.new_revision.to_string()));
        }
        cells.extend([Cell::new(change, tone), Cell::plain(with_local_times(&event.comment))]);
        cells
    }

    fn name(&self) -> String {
        name(&self.event)
    }
}

#[cfg(test)]
mod tests {
    use api_types::execution::ComputeState;
    use api_types::history::{ExecutionStateChange, JobStateChange, NodeStateChange};
    use api_types::job::JobStateType;
    use api_types::words::ALL_EXECUTION_STATES;

    use super::*;

    fn event() -> HistoryEvent {
        HistoryEvent {
            event_type: EventType::NodeLevel,
            job_id: None,
            node_id: None,
            execution_id: None,
            job_state: None,
            execution_state: None,
            node_state: None,
            new_revision: 1,
            comment: String::new(),
            time: String::new(),
            job_name: None,
            index: None,
            node_name: None,
        }
    }

    #[test]
    fn every_state_has_the_word_that_other_programs_show() {
        let (previous, first) = (JobStateType::Pending, ComputeState::Undefined);
        for new in JobStateType::ALL.iter().copied().filter(|new| *new != previous) {
            let job_state = Some(JobStateChange { previous, new });
            let shown = change(&HistoryEvent { job_state, ..event() }).0;
            assert_eq!(shown, format!("{} > {}", job_word(previous), job_word(new)));
        }
        for new in ALL_EXECUTION_STATES {
            let execution_state = Some(ExecutionStateChange { previous: first, new });
            let shown = change(&HistoryEvent { execution_state, ..event() }).0;
            assert_eq!(shown, format!("{} > {}", execution_word(first), execution_word(new)));
        }
        for new in NodeStateType::ALL.iter().copied() {
            let node_state = Some(NodeStateChange { previous: new, new });
            let shown = change(&HistoryEvent { node_state, ..event() }).0;
            assert_eq!(shown, node_word(new));
        }
    }
}
