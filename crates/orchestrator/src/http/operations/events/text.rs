//! Events in the `text/event-stream` format of the HTML standard.

use std::collections::BTreeSet;

use api_types::history::{HistoryEvent, HistoryGap};
use axum::body::Bytes;
use control_plane::store::{EventEntry, Reads, StoreError, StoredNames};
use scheduler::change::EventSubject;
use serde::Serialize;

use crate::http::error::Failure;
use crate::http::operations::history;
use crate::view::View;

/// Milliseconds until a browser reconnects.
const RETRY_MS: u32 = 1000;

/// The first block: no event, but an id where the reader does not know it, so that a reader that
/// reconnects before the first event misses nothing.
pub(super) fn greeting(begins: u64, position: Option<u64>) -> Bytes {
    let id = position.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!(": events after {begins}\nretry: {RETRY_MS}\n{id}\n").into()
}

/// A comment block, which is no event either.
pub(super) fn keep_alive(position: Option<u64>) -> Bytes {
    let id = position.map_or_else(String::new, |id| format!("id: {id}\n"));
    format!(": keep-alive\n{id}\n").into()
}

/// What the events concern, by name, so that a page need not ask for the records.
pub(super) struct Names<'a> {
    stored: StoredNames,
    view: &'a View,
}

// === impl Names ===

impl<'a> Names<'a> {
    pub(super) fn load(
        entries: &[EventEntry],
        reads: &dyn Reads,
        view: &'a View,
    ) -> Result<Self, StoreError> {
        let (mut jobs, mut executions) = (BTreeSet::new(), BTreeSet::new());
        for entry in entries {
            let EventEntry::Event(row) = entry else { continue };
            jobs.extend(row.job());
            if let EventSubject::Execution { id, .. } = row.subject {
                executions.insert(id);
            }
        }
        Ok(Self { stored: reads.names(&jobs, &executions)?, view })
    }

    fn add_to(&self, event: HistoryEvent) -> HistoryEvent {
        let job_name = event.job_id.and_then(|id| self.stored.jobs.get(&id).cloned());
        let index = event.execution_id.and_then(|id| self.stored.indexes.get(&id).copied());
        let node = event.node_id.and_then(|id| self.view.node(id));
        HistoryEvent { job_name, index, node_name: node.map(|node| node.name.clone()), ..event }
    }
}

pub(super) fn events(entries: &[EventEntry], names: &Names<'_>) -> Result<Bytes, Failure> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(format!("id: {}\n", id(entry)).as_bytes());
        match entry {
            EventEntry::Event(row) => {
                data(&mut bytes, &names.add_to(history::record(row.clone())))?
            }
            EventEntry::Gap { from, to } => {
                bytes.extend_from_slice(format!("event: {}\n", HistoryGap::EVENT).as_bytes());
                data(&mut bytes, &HistoryGap { from: *from, to: *to })?;
            }
        }
    }
    Ok(bytes.into())
}

/// The event id after which a reader of this event resumes.
pub(super) fn id(entry: &EventEntry) -> u64 {
    match entry {
        EventEntry::Event(row) => row.seq,
        EventEntry::Gap { to, .. } => *to,
    }
}

/// JSON without line breaks is one line of data.
fn data(bytes: &mut Vec<u8>, value: &impl Serialize) -> Result<(), Failure> {
    bytes.extend_from_slice(b"data: ");
    serde_json::to_writer(&mut *bytes, value)
        .map_err(|error| Failure::Internal { cause: format!("render an event: {error}") })?;
    bytes.extend_from_slice(b"\n\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use api_types::job::JobStateType;
    use api_types::{JobId, Timestamp};
    use uuid::Uuid;

    use super::*;
    use scheduler::change::EventRow;

    #[test]
    fn blocks_end_with_an_empty_line() {
        assert_eq!(greeting(7, None), ": events after 7\nretry: 1000\n\n");
        assert_eq!(greeting(7, Some(7)), ": events after 7\nretry: 1000\nid: 7\n\n");
        assert_eq!(keep_alive(None), ": keep-alive\n\n");
        assert_eq!(keep_alive(Some(9)), ": keep-alive\nid: 9\n\n");
    }

    #[test]
    fn a_line_end_in_a_comment_does_not_end_the_data() {
        let event = EventEntry::Event(EventRow {
            seq: 3,
            time: Timestamp(1),
            revision: 1,
            comment: "one\ntwo\r\ndata: three".into(),
            subject: EventSubject::Job {
                job: JobId::from_uuid(Uuid::nil()),
                previous: JobStateType::Pending,
                new: JobStateType::Running,
            },
        });
        let view = View::default();
        let names = Names { stored: StoredNames::default(), view: &view };
        let bytes = events(&[event, EventEntry::Gap { from: 4, to: 6 }], &names).ok().unwrap();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        let lines: Vec<_> = text.split('\n').collect();
        assert_eq!(lines[0], "id: 3");
        assert!(lines[1].starts_with("data: {\"Type\":\"JobLevel\""), "{text}");
        let rest = ["", "id: 6", "event: gap", "data: {\"From\":4,\"To\":6}", "", ""];
        assert_eq!(lines[2..], rest);
    }
}
