//! Events of the event stream in a list.

use api_types::history::HistoryEvent;
use serde::Serialize;

use super::history::{NONE, change};
use crate::output::{Cell, LOCAL_TIME, Layout, Listed, local_word, time_of_day, with_local_times};

/// An event with its sequence number, from which a later stream can continue.
#[derive(Debug, Serialize)]
pub(crate) struct NumberedEvent {
    #[serde(rename = "Sequence")]
    pub(crate) sequence: u64,
    #[serde(flatten)]
    pub(crate) event: HistoryEvent,
    #[serde(skip)]
    pub(crate) names: EventNames,
}

/// What the subjects of an event are called.
#[derive(Debug, Default)]
pub(crate) struct EventNames {
    pub(crate) job: Option<String>,
    /// Like `[3]`.
    pub(crate) execution: Option<String>,
    pub(crate) node: Option<String>,
}

impl NumberedEvent {
    /// Widths of most names and changes.
    pub(crate) const WIDTHS: &'static [usize] = &[10, 14, 5, 10, 19];
}

impl Listed for NumberedEvent {
    const NOUN: &'static str = "events";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        match layout.wide {
            true => vec!["SEQUENCE", "TIME", "JOB", "EXECUTION", "NODE", "CHANGE", "COMMENT"],
            false => vec![LOCAL_TIME, "JOB", "INDEX", "NODE", "CHANGE", "COMMENT"],
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let event = &self.event;
        let (change, tone) = change(event);
        let or_none = |id: Option<String>| Cell::plain(id.unwrap_or_else(|| NONE.to_owned()));
        if layout.wide {
            return vec![
                Cell::plain(self.sequence.to_string()),
                Cell::plain(local_word(&event.time)),
                or_none(event.job_id.map(|id| id.to_string())),
                or_none(event.execution_id.map(|id| id.to_string())),
                or_none(event.node_id.map(|id| id.to_string())),
                Cell::new(change, tone),
                Cell::plain(with_local_times(&event.comment)),
            ];
        }
        let time = time_of_day(&event.time, layout.now);
        vec![
            Cell::plain(time),
            or_none(self.names.job.clone()),
            or_none(self.names.execution.clone()),
            or_none(self.names.node.clone()),
            Cell::new(change, tone),
            Cell::plain(with_local_times(&event.comment)),
        ]
    }

    fn name(&self) -> String {
        self.sequence.to_string()
    }
}
