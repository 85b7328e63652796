//! What a dry run says of each node.

use std::collections::BTreeMap;

use api_types::NodeId;
use api_types::job::DryRunNode;
use serde::Serialize;

use crate::output::{Cell, Layout, Listed, Tone};

/// The service's word, and the name by which people know the machine.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub(crate) struct NodeVerdict {
    verdict: DryRunNode,
    #[serde(skip)]
    host: String,
}

impl NodeVerdict {
    /// Those that would be chosen come first.
    pub(crate) fn all(nodes: &[DryRunNode], hosts: &BTreeMap<NodeId, String>) -> Vec<Self> {
        let mut verdicts: Vec<_> = nodes
            .iter()
            .map(|verdict| Self {
                verdict: verdict.clone(),
                host: hosts.get(&verdict.node_id).cloned().unwrap_or_else(|| "-".to_owned()),
            })
            .collect();
        verdicts.sort_by_key(|node| !node.verdict.chosen);
        verdicts
    }
}

impl Listed for NodeVerdict {
    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["NODE", "HOSTNAME", "CHOSEN", "REASON"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.verdict.node_id;
        let (word, tone) =
            if self.verdict.chosen { ("yes", Tone::Good) } else { ("no", Tone::Waiting) };
        vec![
            Cell::plain(if layout.wide { id.to_string() } else { id.short() }),
            Cell::plain(&self.host),
            Cell::new(word, tone),
            Cell::plain(&self.verdict.reason),
        ]
    }

    fn name(&self) -> String {
        self.verdict.node_id.to_string()
    }
}
