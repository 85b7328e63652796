//! Published results of executions, in order of slot and creation: a walk of one table.

use std::collections::BTreeMap;

use api_types::execution::ComputeState;
use api_types::{ExecutionId, JobId, NodeId};
use rusqlite::types::Value;
use rusqlite::{Connection, params, params_from_iter};

use super::row::{self, Id, bad_record, counter};
use crate::store::{CompletedResult, Page, ResultPosition, ResultQuery, StoreError, StoredResult};

/// The first format that has nodes with the source `job`, and jobs with such an input.
pub(super) const FORMAT: u32 = 29;

/// The records of nodes and jobs are JSON; an older release does not know the word.
pub(super) const STEP: &str = "";

pub(super) fn results(
    connection: &Connection,
    query: &ResultQuery,
) -> Result<Page<StoredResult>, StoreError> {
    let mut parameters: Vec<Value> =
        vec![query.job.bytes().to_vec().into(), (i64::from(query.limit) + 1).into()];
    let mut range = "";
    if let Some(after) = query.after {
        parameters.push(after.index.into());
        parameters.push(after.create_time.0.into());
        parameters.push(after.id.bytes().to_vec().into());
        range = "AND (slot, create_time, id) > (?3, ?4, ?5)";
    }
    let sql = format!(
        "SELECT slot, create_time, id, result FROM published
         WHERE job = (SELECT number FROM job WHERE id = ?1) {range}
         ORDER BY slot, create_time, id LIMIT ?2"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut items = row::all(&mut statement, params_from_iter(parameters), |row| {
        let result: String = row.get(3)?;
        Ok(StoredResult {
            position: ResultPosition {
                index: row.get(0)?,
                create_time: row::time(row, 1)?,
                id: Id::get(row, 2)?,
            },
            result: serde_json::from_str(&result).map_err(bad_record)?,
        })
    })?;
    let more = items.len() > query.limit as usize;
    items.truncate(query.limit as usize);
    Ok(Page { items, more })
}

pub(super) fn completed(
    connection: &Connection,
    job: JobId,
    index: Option<u32>,
    limit: u32,
) -> Result<Vec<CompletedResult>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT p.slot, p.id, e.node, e.version, p.result
         FROM published AS p CROSS JOIN execution AS e ON e.id = p.id
         WHERE p.job = (SELECT number FROM job WHERE id = ?1)
             AND p.slot BETWEEN ifnull(?2, 0) AND ifnull(?2, 4294967295) AND e.compute = ?3
         ORDER BY p.slot, p.create_time, p.id LIMIT ?4",
    )?;
    let completed = u8::from(ComputeState::Completed);
    let found = row::all(&mut statement, params![job.bytes(), index, completed, limit], |row| {
        let result: String = row.get(4)?;
        Ok(CompletedResult {
            index: row.get(0)?,
            id: Id::get(row, 1)?,
            node: Id::get(row, 2)?,
            version: counter(row, 3)?,
            result: serde_json::from_str(&result).map_err(bad_record)?,
        })
    })?;
    // A slot completes once. If a damaged file says otherwise, the last one counts.
    let by_index: BTreeMap<u32, CompletedResult> =
        found.into_iter().map(|result| (result.index, result)).collect();
    Ok(by_index.into_values().collect())
}

pub(super) fn needed(
    connection: &Connection,
    node: NodeId,
    executions: &[ExecutionId],
) -> Result<Vec<ExecutionId>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT j.named > 0 FROM execution AS e CROSS JOIN job AS j ON j.number = e.job
         WHERE e.id = ?1 AND e.node = ?2",
    )?;
    let mut needed = Vec::new();
    for id in executions {
        let is_needed = row::one(&mut statement, params![id.bytes(), node.bytes()], |row| {
            Ok(row.get::<_, bool>(0)?)
        })?;
        needed.extend(is_needed.filter(|is_needed| *is_needed).map(|_| *id));
    }
    Ok(needed)
}
