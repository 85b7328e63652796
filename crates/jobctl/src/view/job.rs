//! Jobs in a list.

use api_types::job::{Job, JobState};
use api_types::summary::JobSummary;
use api_types::words::job_word;
use api_types::{JobId, Timestamp};

use super::tone::job_tone;
use crate::output::{Cell, Layout, Listed, age, with_local_times};

/// What a row shows, of a record or of a summary.
struct Row<'a> {
    id: JobId,
    namespace: &'a str,
    name: &'a str,
    job_type: &'a str,
    priority: u32,
    count: u32,
    state: &'a JobState,
    /// How many of the executions have completed, or run if they are not meant to end; a record does
    /// not say.
    done: Option<u32>,
    create_time: Timestamp,
    modify_time: Timestamp,
}

impl Listed for Job {
    const NOUN: &'static str = "jobs";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        Row::columns(layout)
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let row = Row {
            id: self.id,
            namespace: &self.spec.namespace,
            name: &self.spec.name,
            job_type: self.spec.job_type.as_str(),
            priority: self.spec.priority,
            count: self.spec.count,
            state: &self.state,
            done: None,
            create_time: self.create_time,
            modify_time: self.modify_time,
        };
        row.cells(layout)
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

impl Listed for JobSummary {
    const NOUN: &'static str = "jobs";

    fn columns(layout: &Layout) -> Vec<&'static str> {
        Row::columns(layout)
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let row = Row {
            id: self.id,
            namespace: &self.namespace,
            name: &self.name,
            job_type: self.job_type.as_str(),
            priority: self.priority,
            count: self.executions.total,
            state: &self.state,
            done: Some(if self.job_type.is_finite() {
                self.executions.completed
            } else {
                self.executions.running
            }),
            create_time: self.create_time,
            modify_time: self.modify_time,
        };
        row.cells(layout)
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}

// === impl Row ===

impl Row<'_> {
    fn columns(layout: &Layout) -> Vec<&'static str> {
        let mut columns = vec!["ID"];
        if layout.wide || layout.namespaces {
            columns.push("NAMESPACE");
        }
        columns.extend(["NAME", "TYPE"]);
        if layout.wide {
            columns.push("PRIORITY");
        }
        columns.extend(["STATE", "DONE", "AGE"]);
        if layout.wide {
            columns.extend(["CHANGED", "MESSAGE"]);
        }
        columns
    }

    fn cells(self, layout: &Layout) -> Vec<Cell> {
        let id = self.id;
        // The default name is the ID, which has its own column.
        let name = if self.name == id.to_string() { "-" } else { self.name };
        let mut cells = vec![Cell::plain(if layout.wide { id.to_string() } else { id.short() })];
        if layout.wide || layout.namespaces {
            cells.push(Cell::plain(self.namespace));
        }
        cells.extend([Cell::plain(name), Cell::plain(self.job_type)]);
        if layout.wide {
            cells.push(Cell::plain(self.priority.to_string()));
        }
        let state = self.state.state_type;
        cells.push(Cell::new(job_word(state), job_tone(state)));
        let done = self.done.map_or_else(|| "-".to_owned(), |done| done.to_string());
        cells.push(Cell::plain(format!("{done}/{}", self.count)));
        cells.push(Cell::age(age(layout.now, self.create_time)));
        if layout.wide {
            cells.push(Cell::age(age(layout.now, self.modify_time)));
            cells.push(Cell::plain(with_local_times(&self.state.message)));
        }
        cells
    }
}
