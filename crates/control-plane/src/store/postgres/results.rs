//! Published results of executions, in order of slot and creation: a walk of one table.

use std::collections::BTreeMap;

use api_types::execution::ComputeState;
use api_types::{ExecutionId, JobId, NodeId};

use super::reader::{Param, Reader};
use super::row::{Columns, Id, counter, from_json, of, time};
use crate::store::{CompletedResult, Page, ResultPosition, ResultQuery, StoreError, StoredResult};

pub(super) fn results(
    reader: &mut Reader,
    query: &ResultQuery,
) -> Result<Page<StoredResult>, StoreError> {
    let job = query.job.bytes();
    let job = job.as_slice();
    let after = query.after.map(|after| (i64::from(after.index), after.create_time.0, after.id));
    let after = after.map(|(index, time, id)| (index, time, id.bytes().to_vec()));
    let mut params = vec![&job as Param<'_>];
    let mut range = "";
    if let Some((index, time, id)) = &after {
        params.extend([index as Param<'_>, time, id]);
        range = "AND (slot, create_time, id) > ($2, $3, $4)";
    }
    let sql = format!(
        "SELECT slot, create_time, id, result FROM published
         WHERE job = (SELECT number FROM job WHERE id = $1) {range}
         ORDER BY slot, create_time, id LIMIT {}",
        i64::from(query.limit) + 1
    );
    let items = reader.all(&sql, &params, |row| {
        let (id, json): (_, String) = (Id::get(row, 2)?, row.value(3)?);
        let position = ResultPosition { index: row.value(0)?, create_time: time(row, 1)?, id };
        Ok(StoredResult { position, result: of(id, from_json(&json))? })
    })?;
    Ok(Page::of(items, query.limit))
}

pub(super) fn completed(
    reader: &mut Reader,
    job: JobId,
    index: Option<u32>,
    limit: u32,
) -> Result<Vec<CompletedResult>, StoreError> {
    let sql = format!(
        "SELECT p.slot, p.id, e.node, e.version, p.result
         FROM published AS p JOIN execution AS e ON e.id = p.id
         WHERE p.job = (SELECT number FROM job WHERE id = $1) AND p.slot BETWEEN $2 AND $3
             AND e.compute = $4
         ORDER BY p.slot, p.create_time, p.id LIMIT {limit}"
    );
    let (first, last) = index.map_or((0_i64, i64::from(u32::MAX)), |it| (it.into(), it.into()));
    let completed = i64::from(u8::from(ComputeState::Completed));
    let found = reader.all(&sql, &[&job.bytes().as_slice(), &first, &last, &completed], |row| {
        let (id, json): (_, String) = (Id::get(row, 1)?, row.value(4)?);
        Ok(CompletedResult {
            index: row.value(0)?,
            id,
            node: Id::get(row, 2)?,
            version: counter(row, 3)?,
            result: of(id, from_json(&json))?,
        })
    })?;
    // A slot completes once. If a damaged database says otherwise, the last one counts.
    let by_index: BTreeMap<u32, CompletedResult> =
        found.into_iter().map(|result| (result.index, result)).collect();
    Ok(by_index.into_values().collect())
}

pub(super) fn needed(
    reader: &mut Reader,
    node: NodeId,
    executions: &[ExecutionId],
) -> Result<Vec<ExecutionId>, StoreError> {
    let sql = "SELECT e.id FROM unnest($1::bytea[]) AS u (id)
            JOIN execution AS e ON e.id = u.id JOIN job_run AS r ON r.number = e.job
         WHERE e.node = $2 AND r.named > 0";
    let ids: Vec<_> = executions.iter().map(|id| id.bytes().to_vec()).collect();
    reader.all(sql, &[&ids, &node.bytes().as_slice()], |row| Id::get(row, 0))
}
