//! Equal failures of a job's executions, one after the other: they are one message.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use api_types::{ExecutionId, NodeId, Timestamp};

use crate::change::ExecutionRow;
use crate::text::Text;

/// Nodes that are counted.
const COUNTED_NODES: usize = 64;

#[derive(Debug)]
pub(crate) struct Streak {
    what: Text,
    /// The execution that ended last.
    last: Option<ExecutionId>,
    /// The slot, if all were of one.
    index: Option<u32>,
    tries: u32,
    /// When the first of them ended; unknown if that was before a restart of the orchestrator.
    since: Option<Timestamp>,
    nodes: BTreeSet<NodeId>,
}

// === impl Streak ===

impl Streak {
    pub(crate) const NONE: Self = Self {
        what: Text::Constant(""),
        last: None,
        index: None,
        tries: 0,
        since: None,
        nodes: BTreeSet::new(),
    };

    /// After a restart, of which only the number of failures before is known.
    pub(crate) fn of_tries(tries: u32) -> Self {
        Self { tries, ..Self::NONE }
    }

    /// Adds the end of an execution, once.
    pub(crate) fn add(&mut self, row: &ExecutionRow) {
        if self.last == Some(row.id) {
            return;
        }
        if self.last.is_none() || *self.what != *row.compute_message {
            let tries = if self.last.is_none() { self.tries } else { 0 };
            let since = (tries == 0).then_some(row.modify_time);
            let (what, index) = (row.compute_message.clone(), Some(row.index));
            *self = Self { what, index, tries, since, ..Self::NONE };
        }
        self.last = Some(row.id);
        self.index = self.index.filter(|index| *index == row.index);
        self.tries = self.tries.saturating_add(1);
        if self.nodes.len() < COUNTED_NODES {
            self.nodes.insert(row.node);
        }
    }

    /// The slot, if all were of one.
    pub(crate) fn index(&self) -> Option<u32> {
        self.index
    }

    /// ` (3 nodes, 3 tries)`; empty for one.
    pub(crate) fn counts(&self) -> String {
        self.counted("")
    }

    /// ` (1 node, 5 tries since 2026-11-21T08:49:26Z)`; empty for one.
    pub(crate) fn counts_and_since(&self) -> String {
        let since = self.since.map(|since| format!(" since {}", since.rfc3339_seconds()));
        self.counted(&since.unwrap_or_default())
    }

    fn counted(&self, since: &str) -> String {
        let more = if self.nodes.len() == COUNTED_NODES { " or more" } else { "" };
        match (self.tries, self.nodes.len()) {
            (0 | 1, _) => String::new(),
            (tries, 1) => format!(" (1 node, {tries} tries{since})"),
            (tries, nodes) => format!(" ({nodes}{more} nodes, {tries} tries{since})"),
        }
    }
}
