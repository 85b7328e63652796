//! Events of the event stream in a list.

use api_types::history::HistoryEvent;
use serde::Serialize;

use super::history::{NONE, change};
use crate::output::{Cell, Layout, Listed};

/// An event with its sequence number, from which a later stream can continue.
#[derive(Debug, Serialize)]
pub(crate) struct NumberedEvent {
    #[serde(rename = "Sequence")]
    pub(crate) sequence: u64,
    #[serde(flatten)]
    pub(crate) event: HistoryEvent,
}

impl NumberedEvent {
    /// Widths of short IDs and most changes.
    pub(crate) const WIDTHS: &'static [usize] = &[8, 10, 10, 10, 19];
}

impl Listed for NumberedEvent {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["TIME", "JOB", "EXECUTION", "NODE", "CHANGE", "COMMENT"];
        if layout.wide {
            columns.insert(0, "SEQUENCE");
        }
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let event = &self.event;
        let (change, tone) = change(event);
        let or_none = |id: Option<String>| Cell::plain(id.unwrap_or_else(|| NONE.to_owned()));
        if layout.wide {
            return vec![
                Cell::plain(self.sequence.to_string()),
                Cell::plain(&event.time),
                or_none(event.job_id.map(|id| id.to_string())),
                or_none(event.execution_id.map(|id| id.to_string())),
                or_none(event.node_id.map(|id| id.to_string())),
                Cell::new(change, tone),
                Cell::plain(&event.comment),
            ];
        }
        // The time of day in 2026-01-02T03:04:05.000000000Z.
        let time = event.time.get(11..19).unwrap_or(&event.time);
        vec![
            Cell::plain(time),
            or_none(event.job_id.map(|id| id.short())),
            or_none(event.execution_id.map(|id| id.short())),
            or_none(event.node_id.map(|id| id.short())),
            Cell::new(change, tone),
            Cell::plain(&event.comment),
        ]
    }

    fn name(&self) -> String {
        self.sequence.to_string()
    }
}
