//! Events of a job's or a node's history in a list.

use api_types::history::{EventType, HistoryEvent, NodeStateType};
use serde::Serialize;

use super::{compute_tone, job_tone, state_word};
use crate::output::{Cell, Layout, Listed, Tone, age_of_text};

/// Shown in place of an absent execution or node.
pub(super) const NONE: &str = "-";

pub(super) fn change(event: &HistoryEvent) -> (String, Tone) {
    let arrow = |previous: &str, new: &str| {
        if previous == new { new.to_owned() } else { format!("{previous} > {new}") }
    };
    match (event.job_state, event.execution_state, event.node_state) {
        (Some(change), _, _) => {
            (arrow(change.previous.as_str(), change.new.as_str()), job_tone(change.new))
        }
        (None, Some(change), _) => {
            (arrow(state_word(change.previous), state_word(change.new)), compute_tone(change.new))
        }
        (None, None, Some(change)) => {
            (arrow(node_word(change.previous), node_word(change.new)), node_tone(change.new))
        }
        (None, None, None) => (NONE.to_owned(), Tone::Plain),
    }
}

/// The words that lists of nodes use.
const fn node_word(state: NodeStateType) -> &'static str {
    match state {
        NodeStateType::Unknown => "Unknown",
        NodeStateType::Connected => "Connected",
        NodeStateType::Disconnected => "Disconnected",
        NodeStateType::Pending => "Pending",
        NodeStateType::Approved => "Approved",
        NodeStateType::Rejected => "Rejected",
        NodeStateType::Eligible => "Eligible",
        NodeStateType::Cordoned => "Cordoned",
        NodeStateType::Draining => "Draining",
        NodeStateType::Drained => "Drained",
        NodeStateType::Healthy => "Healthy",
        NodeStateType::BackingOff => "BackingOff",
        NodeStateType::Probing => "Probing",
        NodeStateType::Stalled => "Stalled",
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
pub(crate) struct NodeEvent(pub(crate) HistoryEvent);

impl Listed for NodeEvent {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        let moment = if layout.wide { "TIME" } else { "AGE" };
        vec![moment, "REV", "CHANGE", "COMMENT"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let event = &self.0;
        let moment = match layout.wide {
            true => Cell::plain(&event.time),
            false => Cell::age(age_of_text(layout.now, &event.time)),
        };
        let (change, tone) = change(event);
        let revision = Cell::plain(event.new_revision.to_string());
        vec![moment, revision, Cell::new(change, tone), Cell::plain(&event.comment)]
    }

    fn name(&self) -> String {
        self.0.name()
    }
}

impl Listed for HistoryEvent {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        let moment = if layout.wide { "TIME" } else { "AGE" };
        vec![moment, "LEVEL", "EXECUTION", "NODE", "REV", "CHANGE", "COMMENT"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let level = match self.event_type {
            EventType::JobLevel => "job",
            EventType::ExecutionLevel => "execution",
            EventType::NodeLevel => "node",
        };
        let (moment, execution, node) = if layout.wide {
            (
                Cell::plain(&self.time),
                self.execution_id.map(|id| id.to_string()),
                self.node_id.map(|id| id.to_string()),
            )
        } else {
            (
                Cell::age(age_of_text(layout.now, &self.time)),
                self.execution_id.map(|id| id.short()),
                self.node_id.map(|id| id.short()),
            )
        };
        let (change, tone) = change(self);
        vec![
            moment,
            Cell::plain(level),
            Cell::plain(execution.unwrap_or_else(|| NONE.to_owned())),
            Cell::plain(node.unwrap_or_else(|| NONE.to_owned())),
            Cell::plain(self.new_revision.to_string()),
            Cell::new(change, tone),
            Cell::plain(&self.comment),
        ]
    }

    /// Events have no ID; the name is their subject with its new revision.
    fn name(&self) -> String {
        let ids = [
            self.execution_id.map(|id| id.to_string()),
            self.job_id.map(|id| id.to_string()),
            self.node_id.map(|id| id.to_string()),
        ];
        let about = ids.into_iter().flatten().next().unwrap_or_default();
        format!("{about}@{}", self.new_revision)
    }
}
