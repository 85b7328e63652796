//! Events, the marks by which they are found, and which events of nodes stay.

use std::collections::BTreeMap;

use api_types::NodeId;
use api_types::history::NodeStateType;
use scheduler::change::{EventRow, EventSubject};

use super::Writing;
use crate::store::budget::SURPLUS_AT_ONCE;
use crate::store::postgres::values::{Param, Rows, Step, Template, cells};
use crate::store::row::Id;
use crate::store::row::mark::NANOS_PER_SECOND;
use crate::store::row::subject::{OF_FORGOTTEN, OF_KNOWN, SubjectColumns, columns};
use crate::store::{FORGOTTEN_NODES_EVENTS, NODE_EVENTS, StoreError};

const EVENT: Template = Template::new(
    "INSERT INTO event (seq, job, time, revision, previous, new, execution, node, comment)
     SELECT * FROM {rows}",
    "nnnnnnbbb",
);

const MARK: &str = "
    INSERT INTO event_mark (second, seq) VALUES ($1::bigint, $2::bigint)
    ON CONFLICT (second) DO NOTHING";

/// Removes what the new events of a known node are too many for.
const SURPLUS: Template = Template::new(
    "DELETE FROM event AS e
     USING {rows} AS u (node, last, most)
        CROSS JOIN LATERAL (SELECT seq, revision FROM event
            WHERE job <= 0 AND job = 0 AND node = u.node ORDER BY seq LIMIT u.most) AS o
     WHERE o.revision <= u.last AND e.seq = o.seq",
    "bnn",
);

/// What was written before a node was forgotten.
const FORGET: &str = "
    UPDATE event SET job = -1
    WHERE job <= 0 AND job = 0 AND node = ANY ($1::bytea[]) AND seq < $2::bigint";

const SURPLUS_OF_FORGOTTEN: &str = "
    DELETE FROM event WHERE seq IN
        (SELECT seq FROM event WHERE job = -1 ORDER BY seq DESC OFFSET $1::bigint)";

/// What one commit leaves of a known node's history.
#[derive(Default)]
struct OfNode {
    events: i64,
    /// The last revision that is one too many.
    last: u64,
}

impl Writing<'_> {
    pub(super) fn events(&mut self, events: &[EventRow]) -> Result<(), StoreError> {
        let Some(first) = events.first() else { return Ok(()) };
        self.mark(first, events);
        let forgotten = forgotten(events);
        let mut rows = Rows::new(EVENT);
        let mut of_nodes = BTreeMap::<NodeId, OfNode>::new();
        for event in events {
            let job = match (event.job(), &event.subject) {
                (Some(job), _) => self.known.number(job)?,
                (None, EventSubject::Node { node, .. })
                    if forgotten.get(node).is_some_and(|seq| event.seq <= *seq) =>
                {
                    OF_FORGOTTEN
                }
                (None, EventSubject::Node { node, .. }) => {
                    let of_node = of_nodes.entry(*node).or_default();
                    of_node.events += 1;
                    of_node.last = of_node.last.max(event.revision.saturating_sub(NODE_EVENTS));
                    OF_KNOWN
                }
                (None, EventSubject::Job { .. } | EventSubject::Execution { .. }) => OF_KNOWN,
            };
            let SubjectColumns { previous, new, execution, node } = columns(&event.subject);
            rows.push(cells![
                event.seq,
                job,
                event.time.0,
                event.revision,
                previous,
                new,
                execution.as_ref(),
                node.as_ref(),
                &*event.comment,
            ]);
        }
        self.add(rows);
        let mut surplus = Rows::new(SURPLUS);
        for (node, OfNode { events, last }) in of_nodes {
            if last > 0 {
                surplus.push(cells![&node.bytes(), last, events * i64::from(SURPLUS_AT_ONCE)]);
            }
        }
        self.add(surplus);
        if !forgotten.is_empty() {
            let nodes = Param::byte_strings(forgotten.keys().map(|node| node.bytes()));
            let before = Param::number(first.seq.cast_signed());
            self.steps.push(Step::new(FORGET, vec![nodes, before]));
            let kept = Param::number(FORGOTTEN_NODES_EVENTS.cast_signed());
            self.steps.push(Step::new(SURPLUS_OF_FORGOTTEN, vec![kept]));
        }
        Ok(())
    }

    /// Marks where these events begin, if their second has no mark yet.
    fn mark(&mut self, first: &EventRow, events: &[EventRow]) {
        let second = Param::number(self.known.last_time / NANOS_PER_SECOND);
        let seq = Param::number(first.seq.cast_signed());
        self.steps.push(Step::new(MARK, vec![second, seq]));
        let latest = events.iter().map(|event| event.time.0).max().unwrap_or(0);
        self.known.last_time = self.known.last_time.max(latest);
    }
}

/// The nodes that these events forget, each with the sequence of the last such event.
fn forgotten(events: &[EventRow]) -> BTreeMap<NodeId, u64> {
    let forgotten = events.iter().filter_map(|event| match event.subject {
        EventSubject::Node { node, new: NodeStateType::Unknown, .. } => Some((node, event.seq)),
        EventSubject::Node { .. } | EventSubject::Job { .. } | EventSubject::Execution { .. } => {
            None
        }
    });
    forgotten.collect()
}
