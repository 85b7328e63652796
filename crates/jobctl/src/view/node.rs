//! Nodes in a list.

use api_types::history::NodeStateType;
use api_types::node::{Connection, Node, NodeType};
use api_types::quantity::{Bytes, Millis, Resources};
use api_types::words::{node_word, node_words};

use crate::output::{Cell, Layout, Listed, Tone, age_of_text};
use crate::session::name_of;

/// The words for the state of a node.
pub(super) fn status(node: &Node) -> (String, Tone) {
    let words = node_words(node);
    let tone = match (node.connection, words.as_slice()) {
        (Connection::Disconnected, _) => Tone::Bad,
        (Connection::Connected, [only]) if *only == node_word(NodeStateType::Connected) => {
            Tone::Good
        }
        (Connection::Connected, _) => Tone::Waiting,
    };
    (words.join(","), tone)
}

/// `name, name`, or `-`.
pub(super) fn words<T: std::fmt::Display>(words: &[T], separator: &str) -> String {
    if words.is_empty() {
        return "-".to_owned();
    }
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

impl Listed for Node {
    const NOUN: &'static str = "nodes";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["ID", "NAME"];
        if layout.wide {
            columns.push("TYPE");
        }
        columns.extend(["STATUS", "ENGINES", "RUNNING", "CPU-USED", "MEMORY-USED"]);
        if layout.wide {
            columns.extend(["DISK-USED", "GPU-USED", "IDLE"]);
        }
        columns.push("SEEN");
        if layout.wide {
            columns.extend(["VERSION", "LABELS"]);
        }
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.peer_info.id;
        let info = &self.compute_node_info;
        let (status, tone) = status(self);
        // The orchestrator runs no executions.
        let is_compute = self.node_type == NodeType::Compute;
        let amount = |text: String| Cell::plain(if is_compute { text } else { "-".to_owned() });
        let all = Resources::from(info.max_capacity);
        let free = Resources::from(info.available_capacity);
        let used = |of: fn(Resources) -> u64, shown: fn(u64) -> String| {
            let used = of(all).saturating_sub(of(free));
            amount(format!("{}/{}", shown(used), shown(of(all))))
        };

        let mut cells = vec![
            Cell::plain(if layout.wide { id.to_string() } else { id.short() }),
            Cell::plain(name_of(self)),
        ];
        if layout.wide {
            cells.push(Cell::plain(self.node_type.as_str()));
        }
        cells.extend([
            Cell::new(status, tone),
            Cell::plain(words(&info.execution_engines, ",")),
            amount(info.running_executions.to_string()),
            used(|of| of.cpu_millis, |millis| Millis(millis).to_string()),
            used(|of| of.memory_bytes, |bytes| Bytes(bytes).to_string()),
        ]);
        if layout.wide {
            cells.push(used(|of| of.disk_bytes, |bytes| Bytes(bytes).to_string()));
            cells.push(used(|of| of.gpus, |gpus| gpus.to_string()));
            cells.push(Cell::age(match self.idle_since.as_str() {
                "" => "-".to_owned(),
                since => age_of_text(layout.now, since),
            }));
        }
        cells.push(Cell::age(age_of_text(layout.now, &self.last_heartbeat)));
        if layout.wide {
            let labels: Vec<_> =
                self.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
            cells.push(Cell::plain(&self.service_version.git_version));
            cells.push(Cell::plain(words(&labels, ",")));
        }
        cells
    }

    fn name(&self) -> String {
        self.peer_info.id.to_string()
    }
}

#[cfg(test)]
mod tests {
    use api_types::words::{CPU_USED, DISK_USED, GPU_USED, MEMORY_USED};

    use super::*;

    #[test]
    fn columns_have_the_titles_of_the_pages() {
        let columns = Node::columns(&Layout::for_format(crate::output::Format::Wide));
        for title in [CPU_USED, MEMORY_USED, DISK_USED, GPU_USED] {
            let column = title.to_uppercase().replace(' ', "-");
            assert!(columns.contains(&column.as_str()), "{column}");
        }
    }
}
