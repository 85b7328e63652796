//! Outcome of a dry run in a list of nodes.

use api_types::job::DryRunNode;
use serde::Serialize;

use crate::output::{Cell, Layout, Listed, Tone};
use crate::session::NodeNames;

/// The outcome for a node, and its name.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct DryRunRow {
    outcome: DryRunNode,
    #[serde(skip)]
    name: String,
}

impl DryRunRow {
    /// Chosen nodes first.
    pub(crate) fn all(nodes: &[DryRunNode], names: &NodeNames) -> Vec<Self> {
        let mut rows: Vec<_> = nodes
            .iter()
            .map(|node| Self { outcome: node.clone(), name: names.name_of(node.node_id) })
            .collect();
        rows.sort_by_key(|row| !row.outcome.chosen);
        rows
    }
}

impl Listed for DryRunRow {
    const NOUN: &'static str = "nodes";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["ID", "NODE", "CHOSEN", "REASON"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.outcome.node_id;
        let (word, tone) =
            if self.outcome.chosen { ("yes", Tone::Good) } else { ("no", Tone::Waiting) };
        vec![
            Cell::plain(if layout.wide { id.to_string() } else { id.short() }),
            Cell::plain(&self.name),
            Cell::new(word, tone),
            Cell::plain(&self.outcome.reason),
        ]
    }

    fn name(&self) -> String {
        self.outcome.node_id.to_string()
    }
}
