//! Outcome of a dry run in a list of nodes.

use std::collections::BTreeMap;

use api_types::NodeId;
use api_types::job::DryRunNode;
use serde::Serialize;

use crate::output::{Cell, Layout, Listed, Tone};

/// The outcome for a node, and its host name.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct DryRunRow {
    outcome: DryRunNode,
    #[serde(skip)]
    host: String,
}

impl DryRunRow {
    /// Chosen nodes first.
    pub(crate) fn all(nodes: &[DryRunNode], hosts: &BTreeMap<NodeId, String>) -> Vec<Self> {
        let mut rows: Vec<_> = nodes
            .iter()
            .map(|node| Self {
                outcome: node.clone(),
                host: hosts.get(&node.node_id).cloned().unwrap_or_else(|| "-".to_owned()),
            })
            .collect();
        rows.sort_by_key(|row| !row.outcome.chosen);
        rows
    }
}

impl Listed for DryRunRow {
    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NODE", "HOSTNAME", "CHOSEN", "REASON"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.outcome.node_id;
        let (word, tone) =
            if self.outcome.chosen { ("yes", Tone::Good) } else { ("no", Tone::Waiting) };
        vec![
            Cell::plain(if layout.wide { id.to_string() } else { id.short() }),
            Cell::plain(&self.host),
            Cell::new(word, tone),
            Cell::plain(&self.outcome.reason),
        ]
    }

    fn name(&self) -> String {
        self.outcome.node_id.to_string()
    }
}
