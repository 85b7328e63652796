//! Graphs: which jobs belong to each, and what they depend on.

use api_types::{GraphId, JobId};
use tokio_postgres::Row;

use super::reader::{Param, Reader};
use super::row::graphs::{SUMMARY, read_count, read_edge, read_graph, read_job, read_summary};
use super::row::{Id, counter};
use crate::store::{GraphQuery, Namespaces, Page, StoreError, StoredGraph, StoredGraphSummary};

pub(super) fn graph(reader: &mut Reader, id: GraphId) -> Result<Option<StoredGraph>, StoreError> {
    let sql = "SELECT number, namespace, name, create_time FROM graph WHERE id = $1";
    let found = reader.one(sql, &[&id.bytes().as_slice()], |row| read_graph(row, id))?;
    let Some((number, mut graph)) = found else { return Ok(None) };
    let sql = "SELECT g.name, j.id, r.state, r.message
         FROM graph_job AS g JOIN job AS j ON j.number = g.job
            JOIN job_run AS r ON r.number = g.job
         WHERE g.graph = $1 ORDER BY g.name";
    graph.jobs = reader.all(sql, &[&number], read_job)?;
    let sql = "SELECT n.id, j.id, d.condition, d.same
         FROM graph_job AS g JOIN dependency AS d ON d.job = g.job
            JOIN job AS j ON j.number = d.job JOIN job AS n ON n.number = d.named
         WHERE g.graph = $1 ORDER BY g.name, d.named";
    graph.edges = reader.all(sql, &[&number], read_edge)?;
    Ok(Some(graph))
}

/// Up to `limit` jobs that depend on this one, live or not, in the order of their submission.
pub(super) fn dependants(
    reader: &mut Reader,
    job: JobId,
    limit: u32,
) -> Result<Vec<JobId>, StoreError> {
    let sql = format!(
        "SELECT j.id FROM dependency AS d JOIN job AS j ON j.number = d.job
         WHERE d.named = (SELECT number FROM job WHERE id = $1) ORDER BY d.job LIMIT {limit}"
    );
    reader.all(&sql, &[&job.bytes().as_slice()], |row| Id::get(row, 0))
}

/// The newest first.
pub(super) fn graphs(
    reader: &mut Reader,
    query: &GraphQuery,
) -> Result<Page<StoredGraphSummary>, StoreError> {
    let before = query.after.map_or(i64::MAX, u64::cast_signed);
    let name = query.name.as_ref().map(|name| name.as_bytes());
    let mut tests = "number < $1".to_owned();
    let mut params = vec![&before as Param<'_>];
    if let Some(name) = &name {
        params.push(name);
        tests.push_str(&format!(" AND name = ${}", params.len()));
    }
    let limit = i64::from(query.limit) + 1;
    let items = match &query.namespaces {
        Namespaces::All => {
            let sql = format!("{SUMMARY} WHERE {tests} ORDER BY number DESC LIMIT {limit}");
            reader.all(&sql, &params, read_summary)?
        }
        Namespaces::Only(these) => {
            let place = params.len() + 1;
            let sql = format!(
                "{SUMMARY} WHERE namespace = ${place} AND {tests}
                 ORDER BY number DESC LIMIT {limit}"
            );
            let mut found = Vec::new();
            for namespace in these {
                let namespace = namespace.as_bytes();
                let mut params = params.clone();
                params.push(&namespace);
                found.extend(reader.all(&sql, &params, read_summary)?);
            }
            found.sort_unstable_by_key(|graph| std::cmp::Reverse(graph.number));
            found
        }
    };
    let mut page = Page::of(items, query.limit);
    let numbers: Vec<_> = page.items.iter().map(|graph| graph.number.cast_signed()).collect();
    let sql = "SELECT r.state, count(*), g.graph
         FROM graph_job AS g JOIN job_run AS r ON r.number = g.job
         WHERE g.graph = ANY($1) GROUP BY g.graph, r.state";
    let read = |row: &Row| Ok((counter(row, 2)?, read_count(row)?));
    for (number, (state, count)) in reader.all(sql, &[&numbers], read)? {
        let graph = page.items.iter_mut().find(|graph| graph.number == number);
        graph.map(|graph| graph.jobs.insert(state, count));
    }
    Ok(page)
}
