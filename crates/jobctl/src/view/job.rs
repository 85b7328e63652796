//! Jobs in a list.

use api_types::job::Job;

use super::job_tone;
use crate::output::{Cell, Layout, Listed, age};

impl Listed for Job {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["ID"];
        if layout.wide || layout.namespaces {
            columns.push("NAMESPACE");
        }
        columns.extend(["NAME", "TYPE"]);
        if layout.wide {
            columns.extend(["PRIORITY", "COUNT"]);
        }
        columns.extend(["STATE", "AGE"]);
        if layout.wide {
            columns.extend(["CHANGED", "MESSAGE"]);
        }
        columns
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let id = self.id;
        let spec = &self.spec;
        // The default name is the ID, which has its own column.
        let name = if spec.name == id.to_string() { "-" } else { &spec.name };
        let mut cells = vec![Cell::plain(if layout.wide { id.to_string() } else { id.short() })];
        if layout.wide || layout.namespaces {
            cells.push(Cell::plain(&spec.namespace));
        }
        cells.extend([Cell::plain(name), Cell::plain(spec.job_type.as_str())]);
        if layout.wide {
            cells.extend([
                Cell::plain(spec.priority.to_string()),
                Cell::plain(spec.count.to_string()),
            ]);
        }
        let state = self.state.state_type;
        cells.push(Cell::new(state.as_str(), job_tone(state)));
        cells.push(Cell::age(age(layout.now, self.create_time)));
        if layout.wide {
            cells.push(Cell::age(age(layout.now, self.modify_time)));
            cells.push(Cell::plain(&self.state.message));
        }
        cells
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}
