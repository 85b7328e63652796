//! Published results of executions, in order of slot and creation: a walk of one table.

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::row::{self, Id, bad_record};
use crate::store::{Page, ResultPosition, ResultQuery, StoreError, StoredResult};

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
