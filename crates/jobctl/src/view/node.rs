//! Nodes in a list.

use api_types::node::{Connection, Eligibility, Membership, Node, NodeType};
use api_types::quantity::{Bytes, Millis, Resources};

use crate::output::{Cell, Layout, Listed, Tone, age_of_text};

/// Whether the node accepts work, or the reasons why not.
pub(super) fn status(node: &Node) -> (String, Tone) {
    let mut words = Vec::new();
    match node.membership {
        Membership::Approved => {}
        Membership::Pending => words.push("Pending"),
        Membership::Rejected => words.push("Rejected"),
    }
    match node.connection {
        Connection::Connected => {}
        Connection::Disconnected => words.push("Disconnected"),
    }
    match node.eligibility {
        Eligibility::Eligible => {}
        Eligibility::Cordoned => words.push("Cordoned"),
        Eligibility::Draining => words.push("Draining"),
    }
    let tone = match (words.is_empty(), node.connection) {
        (true, _) => Tone::Good,
        (false, Connection::Disconnected) => Tone::Bad,
        (false, Connection::Connected) => Tone::Waiting,
    };
    if words.is_empty() { ("Ready".to_owned(), tone) } else { (words.join(","), tone) }
}

/// Free and total amount: `1.5/2`.
fn share(free: impl std::fmt::Display, all: impl std::fmt::Display) -> String {
    format!("{free}/{all}")
}

/// `name, name`, or `-`.
pub(super) fn words<T: std::fmt::Display>(words: &[T], separator: &str) -> String {
    if words.is_empty() {
        return "-".to_owned();
    }
    words.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
}

impl Listed for Node {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        if layout.wide {
            vec![
                "ID", "HOSTNAME", "TYPE", "STATUS", "ENGINES", "RUNNING", "CPU", "MEMORY", "DISK",
                "GPU", "SEEN", "VERSION", "LABELS",
            ]
        } else {
            vec!["ID", "HOSTNAME", "TYPE", "STATUS", "ENGINES", "RUNNING", "CPU", "MEMORY", "SEEN"]
        }
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.peer_info.id;
        let info = &self.compute_node_info;
        let all = Resources::from(info.max_capacity);
        let free = Resources::from(info.available_capacity);
        let host = self.labels.get("hostname").map_or("-", String::as_str);
        let (status, tone) = status(self);
        // The orchestrator runs no executions.
        let is_compute = self.node_type == NodeType::Compute;
        let amount = |text: String| Cell::plain(if is_compute { text } else { "-".to_owned() });

        let mut cells = vec![
            Cell::plain(if layout.wide { id.to_string() } else { id.short() }),
            Cell::plain(host),
            Cell::plain(self.node_type.as_str()),
            Cell::new(status, tone),
            Cell::plain(words(&info.execution_engines, ",")),
            amount(info.running_executions.to_string()),
            amount(share(Millis(free.cpu_millis), Millis(all.cpu_millis))),
            amount(share(Bytes(free.memory_bytes), Bytes(all.memory_bytes))),
        ];
        if layout.wide {
            cells.push(amount(share(Bytes(free.disk_bytes), Bytes(all.disk_bytes))));
            cells.push(amount(share(free.gpus, all.gpus)));
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
