//! Graphs, and the jobs of one.

use std::collections::BTreeMap;

use api_types::dependency::{Condition, Indexes};
use api_types::graph::{Graph, GraphJob, GraphSummary};
use api_types::{JobId, Timestamp};
use serde::Serialize;

use super::tone::job_tone;
use crate::output::{Cell, Fields, Layout, Listed, age, with_local_times};

/// A job of a graph, and those after which it starts.
#[derive(Debug, Serialize)]
pub(crate) struct GraphRow {
    job: GraphJob,
    after: String,
}

/// What has to become of another job, or of the same index of it.
pub(crate) fn condition(condition: Condition, indexes: Indexes) -> String {
    let word = condition.as_str().to_lowercase();
    match indexes {
        Indexes::All => word,
        Indexes::Same => format!("{word}, index by index"),
    }
}

pub(crate) fn graph_fields(graph: &Graph, now: Timestamp) -> Fields {
    let mut fields = Fields::default();
    fields
        .add("ID", graph.id.to_string())
        .add("Name", &graph.name)
        .add("Namespace", &graph.namespace)
        .add_toned("State", graph.state.as_str(), job_tone(graph.state))
        .add("Created", format!("{} ago", age(now, graph.create_time)));
    fields
}

// === impl GraphRow ===

impl GraphRow {
    pub(crate) fn of(graph: &Graph) -> Vec<Self> {
        let names: BTreeMap<JobId, &str> =
            graph.jobs.iter().map(|job| (job.job_id, job.name.as_str())).collect();
        let rows = graph.jobs.iter().map(|job| {
            let edges = graph.edges.iter().filter(|edge| edge.to == job.job_id);
            let after = edges.map(|edge| {
                let other = names.get(&edge.from).map(|name| (*name).to_owned());
                let other = other.unwrap_or_else(|| edge.from.short());
                format!("{other} ({})", condition(edge.condition, edge.indexes))
            });
            Self { job: job.clone(), after: after.collect::<Vec<_>>().join(", ") }
        });
        rows.collect()
    }
}

impl Listed for GraphRow {
    const NOUN: &'static str = "jobs";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["JOB", "ID", "STATE", "AFTER", "MESSAGE"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let GraphJob { name, job_id, state, message } = &self.job;
        let id = if layout.wide { job_id.to_string() } else { job_id.short() };
        vec![
            Cell::plain(name),
            Cell::plain(id),
            Cell::new(state.as_str(), job_tone(*state)),
            Cell::plain(&self.after),
            Cell::plain(with_local_times(message)),
        ]
    }

    fn name(&self) -> String {
        self.job.job_id.to_string()
    }
}

impl Listed for GraphSummary {
    const NOUN: &'static str = "graphs";

    fn columns(_: &Layout) -> Vec<&'static str> {
        vec!["ID", "NAME", "STATE", "JOBS", "AGE"]
    }

    fn cells(&self, layout: &Layout) -> Vec<Cell> {
        let jobs = self.jobs.iter().map(|(state, jobs)| format!("{jobs} {}", state.to_lowercase()));
        vec![
            Cell::plain(self.id.to_string()),
            Cell::plain(&self.name),
            Cell::new(self.state.as_str(), job_tone(self.state)),
            Cell::plain(jobs.collect::<Vec<_>>().join(", ")),
            Cell::age(age(layout.now, self.create_time)),
        ]
    }

    fn name(&self) -> String {
        self.id.to_string()
    }
}
