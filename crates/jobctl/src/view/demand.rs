//! What waits for room, in a list.

use api_types::demand::DemandClass;
use api_types::quantity::{Bytes, Capacity, Millis, Resources};

use super::describe::constraint;
use super::node::words;
use crate::output::{Cell, Layout, Listed, age_of_text};

/// Shown where a job leaves the amount to the node.
const OPEN: &str = "-";

impl Listed for DemandClass {
    const NOUN: &'static str = "executions that wait for room";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["NAMESPACE", "SLOTS"];
        if layout.wide {
            columns.extend(["JOBS", "PRIORITY"]);
        }
        columns.extend(["ENGINE", "CPU", "MEMORY"]);
        if layout.wide {
            columns.extend(["DISK", "GPU", "PUBLISHER", "SOURCES", "CONSTRAINTS"]);
        }
        columns.extend(["NODES", "WAITS", "MESSAGE"]);
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let more = if self.slots_is_more { "+" } else { "" };
        let mut cells =
            vec![Cell::plain(&self.namespace), Cell::plain(format!("{}{more}", self.slots))];
        if layout.wide {
            cells.push(Cell::plain(self.jobs.to_string()));
            cells.push(Cell::plain(self.priority.to_string()));
        }
        let asked = self.resources;
        let cpu = asked.cpu.map_or_else(|| OPEN.to_owned(), cores);
        let memory = asked.memory.map_or_else(|| OPEN.to_owned(), |it| Bytes(it).to_string());
        cells.extend([Cell::plain(self.engine.as_str()), Cell::plain(cpu), Cell::plain(memory)]);
        if layout.wide {
            let constraints = self.constraints.iter().map(constraint);
            let constraints: Vec<_> = constraints.collect();
            cells.extend([
                Cell::plain(Bytes(asked.disk).to_string()),
                Cell::plain(asked.gpu.to_string()),
                Cell::plain(
                    Some(self.publisher.as_str()).filter(|it| !it.is_empty()).unwrap_or(OPEN),
                ),
                Cell::plain(words(&self.storage_sources, ",")),
                Cell::plain(words(&constraints, ", ")),
            ]);
        }
        cells.extend([
            Cell::plain(format!("{}/{}", self.open_nodes, self.capable_nodes)),
            Cell::age(age_of_text(layout.now, &self.since)),
            Cell::plain(&self.message),
        ]);
        cells
    }

    fn name(&self) -> String {
        self.namespace.clone()
    }
}

fn cores(cpu: f64) -> String {
    let amounts = Resources::from(Capacity { cpu, ..Capacity::default() });
    Millis(amounts.cpu_millis).to_string()
}
