//! Equal failures of a job's executions, one after the other: they are one message.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use api_types::{ExecutionId, NodeId};

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
    nodes: BTreeSet<NodeId>,
}

// === impl Streak ===

impl Streak {
    pub(crate) const NONE: Self = Self {
        what: Text::Constant(""),
        last: None,
        index: None,
        tries: 0,
        nodes: BTreeSet::new(),
    };

    /// Adds the end of an execution, once.
    pub(crate) fn add(&mut self, row: &ExecutionRow) {
        if self.last == Some(row.id) {
            return;
        }
        if self.last.is_none() || *self.what != *row.compute_message {
            let index = Some(row.index);
            *self = Self { what: row.compute_message.clone(), index, ..Self::NONE };
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
        let more = if self.nodes.len() == COUNTED_NODES { " or more" } else { "" };
        match (self.tries, self.nodes.len()) {
            (0 | 1, _) => String::new(),
            (tries, 1) => format!(" (1 node, {tries} tries)"),
            (tries, nodes) => format!(" ({nodes}{more} nodes, {tries} tries)"),
        }
    }
}
