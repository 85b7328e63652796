//! Which jobs depend on which, what keeps those that are named, and graphs.

use std::collections::BTreeMap;

use api_types::JobId;
use api_types::dependency::Indexes;
use scheduler::change::Changes;

use super::Writing;
use crate::store::StoreError;
use crate::store::postgres::values::{Param, Rows, Template, cells};
use crate::store::row::{Columns, Id, moment_value};

const DEPENDENCY: Template = Template::new(
    "INSERT INTO dependency (job, named, condition, same) SELECT * FROM {rows}",
    "nnbn",
);

const NAMED: Template = Template::new(
    "UPDATE job_run AS r SET named = u.named FROM {rows} AS u (number, named)
     WHERE r.number = u.number",
    "nn",
);

const BEGUN: Template = Template::new(
    "UPDATE job_run AS r SET began_at = u.began_at FROM {rows} AS u (number, began_at)
     WHERE r.number = u.number",
    "nn",
);

const GRAPH: Template = Template::new(
    "INSERT INTO graph (number, id, namespace, name, create_time) SELECT * FROM {rows}",
    "nbbbn",
);

const GRAPH_JOB: Template =
    Template::new("INSERT INTO graph_job (graph, name, job) SELECT * FROM {rows}", "nbn");

/// The jobs on which these depend. One that was removed is not among them.
const NAMED_BY: &str = "
    SELECT d.job, r.id FROM unnest($1::bigint[]) AS u (job)
        JOIN dependency AS d ON d.job = u.job JOIN job_run AS r ON r.number = d.named";

impl Writing<'_> {
    /// Writes the dependencies of new jobs, and releases what those name that are no longer live.
    pub(super) async fn dependencies(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let mut rows = Rows::new(DEPENDENCY);
        let mut more = BTreeMap::<JobId, i64>::new();
        let mut names: BTreeMap<i64, Vec<JobId>> = BTreeMap::new();
        for job in &changes.new_jobs {
            for dependency in &job.depends_on {
                let number = self.known.number(job.id)?;
                let named = self.known.number(dependency.job_id)?;
                let is_same = i64::from(dependency.indexes == Indexes::Same);
                rows.push(cells![number, named, dependency.condition.as_str(), is_same]);
                *more.entry(dependency.job_id).or_default() += 1;
                names.entry(number).or_default().push(dependency.job_id);
            }
        }
        self.add(rows);
        self.begun(changes)?;
        let released = changes.released.iter().map(|job| self.known.number(*job));
        let released: Vec<_> = released.collect::<Result<_, _>>()?;
        if !released.is_empty() {
            let numbers = Param::numbers(released.iter().copied());
            for row in self.link.query(NAMED_BY, vec![numbers]).await? {
                names.entry(row.value(0)?).or_default().push(Id::get(&row, 1)?);
            }
            let all: Vec<_> = released.iter().filter_map(|job| names.get(job)).flatten().collect();
            self.known.find(self.link, all.iter().map(|id| **id)).await?;
            all.into_iter().for_each(|id| *more.entry(*id).or_default() -= 1);
        }
        self.count_named(more)
    }

    /// Writes when jobs began; the last of several times of a job counts.
    fn begun(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let times: BTreeMap<_, _> = changes.begun.iter().copied().collect();
        let mut rows = Rows::new(BEGUN);
        for (job, at) in times {
            rows.push(cells![self.known.number(job)?, moment_value(at)]);
        }
        self.add(rows);
        Ok(())
    }

    /// This many live jobs more name each of these.
    fn count_named(&mut self, more: BTreeMap<JobId, i64>) -> Result<(), StoreError> {
        let mut rows = Rows::new(NAMED);
        for (id, more) in more {
            self.change_kept(id, |job| job.named = (job.named + more).max(0));
            let named = self.known.get(id).map_or(0, |job| job.named);
            rows.push(cells![self.known.number(id)?, named]);
        }
        self.add(rows);
        Ok(())
    }

    pub(super) fn graphs(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let (mut graphs, mut jobs) = (Rows::new(GRAPH), Rows::new(GRAPH_JOB));
        for graph in &changes.new_graphs {
            self.known.last_graph += 1;
            let number = self.known.last_graph;
            graphs.push(cells![
                number,
                &graph.id.bytes(),
                graph.namespace.as_str(),
                graph.name.as_str(),
                graph.create_time.0,
            ]);
            for (name, job) in &graph.jobs {
                jobs.push(cells![number, name.as_str(), self.known.number(*job)?]);
            }
        }
        self.add(graphs);
        self.add(jobs);
        Ok(())
    }
}
