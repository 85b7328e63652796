//! Graphs: which jobs belong to each, and what they depend on.
//!
//! A graph goes with the last of its jobs. What its jobs depend on is in `dependency`.

use api_types::GraphId;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use scheduler::change::Changes;

use super::numbers::JobNumbers;
use super::row::graphs::{SUMMARY, read_count, read_edge, read_graph, read_job, read_summary};
use super::row::{self, Id};
use crate::store::{GraphQuery, Namespaces, Page, StoreError, StoredGraph, StoredGraphSummary};

pub(super) fn write(
    transaction: &Transaction<'_>,
    numbers: &mut JobNumbers,
    changes: &Changes,
) -> Result<(), StoreError> {
    for graph in &changes.new_graphs {
        transaction
            .prepare_cached(
                "INSERT INTO graph (id, namespace, name, create_time) VALUES (?1, ?2, ?3, ?4)",
            )?
            .execute(params![graph.id.bytes(), graph.namespace, graph.name, graph.create_time.0])?;
        let number = transaction.last_insert_rowid();
        let mut insert = transaction
            .prepare_cached("INSERT INTO graph_job (graph, name, job) VALUES (?1, ?2, ?3)")?;
        for (name, job) in &graph.jobs {
            insert.execute(params![number, name, numbers.get(transaction, *job)?])?;
        }
    }
    Ok(())
}

/// A job of a graph was removed.
pub(super) fn remove(transaction: &Transaction<'_>, job: i64) -> Result<(), StoreError> {
    let found: Option<(i64, String)> = transaction
        .prepare_cached("SELECT graph, name FROM graph_job WHERE job = ?1")?
        .query_row([job], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((graph, name)) = found else { return Ok(()) };
    transaction
        .prepare_cached("DELETE FROM graph_job WHERE graph = ?1 AND name = ?2")?
        .execute(params![graph, name])?;
    let has_more =
        transaction.prepare_cached("SELECT 1 FROM graph_job WHERE graph = ?1")?.exists([graph])?;
    if !has_more {
        transaction.prepare_cached("DELETE FROM graph WHERE number = ?1")?.execute([graph])?;
    }
    Ok(())
}

pub(super) fn graph(
    connection: &Connection,
    id: GraphId,
) -> Result<Option<StoredGraph>, StoreError> {
    let mut select = connection
        .prepare_cached("SELECT number, namespace, name, create_time FROM graph WHERE id = ?1")?;
    let found = row::one(&mut select, [id.bytes()], |row| read_graph(row, id))?;
    let Some((number, mut graph)) = found else { return Ok(None) };
    let mut select = connection.prepare_cached(
        "SELECT g.name, j.id, j.state, j.message
         FROM graph_job AS g CROSS JOIN job AS j ON j.number = g.job
         WHERE g.graph = ?1 ORDER BY g.name",
    )?;
    graph.jobs = row::all(&mut select, [number], read_job)?;
    let mut select = connection.prepare_cached(
        "SELECT n.id, j.id, d.condition, d.same
         FROM graph_job AS g CROSS JOIN dependency AS d ON d.job = g.job
            CROSS JOIN job AS j ON j.number = d.job CROSS JOIN job AS n ON n.number = d.named
         WHERE g.graph = ?1 ORDER BY g.name, d.named",
    )?;
    graph.edges = row::all(&mut select, [number], read_edge)?;
    Ok(Some(graph))
}

/// The newest first.
pub(super) fn graphs(
    connection: &Connection,
    query: &GraphQuery,
) -> Result<Page<StoredGraphSummary>, StoreError> {
    let before = query.after.map_or(i64::MAX, u64::cast_signed);
    let limit = i64::from(query.limit) + 1;
    let name = query.name.as_deref();
    let items = match &query.namespaces {
        Namespaces::All => {
            let sql = format!(
                "{SUMMARY} WHERE number < ?1 AND (?2 IS NULL OR name = ?2)
                 ORDER BY number DESC LIMIT ?3"
            );
            let mut select = connection.prepare_cached(&sql)?;
            row::all(&mut select, params![before, name, limit], read_summary)?
        }
        Namespaces::Only(these) => {
            let sql = format!(
                "{SUMMARY} WHERE namespace = ?1 AND number < ?2 AND (?3 IS NULL OR name = ?3)
                 ORDER BY number DESC LIMIT ?4"
            );
            let mut select = connection.prepare_cached(&sql)?;
            let mut found = Vec::new();
            for namespace in these {
                found.extend(row::all(
                    &mut select,
                    params![namespace, before, name, limit],
                    read_summary,
                )?);
            }
            found.sort_unstable_by_key(|graph| std::cmp::Reverse(graph.number));
            found
        }
    };
    let mut page = Page::of(items, query.limit);
    let mut count = connection.prepare_cached(
        "SELECT j.state, count(*) FROM graph_job AS g CROSS JOIN job AS j ON j.number = g.job
         WHERE g.graph = ?1 GROUP BY j.state",
    )?;
    for graph in &mut page.items {
        let counts = row::all(&mut count, [graph.number.cast_signed()], read_count)?;
        graph.jobs = counts.into_iter().collect();
    }
    Ok(page)
}
