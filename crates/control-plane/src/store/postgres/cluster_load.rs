//! The load of the cluster over the last week.

use api_types::Timestamp;

use super::reader::Reader;
use super::row::{Columns, from_json, of, time};
use crate::store::{LoadRow, MOST_LOAD_ROWS, StoreError};

pub(super) fn since(reader: &mut Reader, since: Timestamp) -> Result<Vec<LoadRow>, StoreError> {
    let sql = format!(
        "SELECT time, sample FROM cluster_load WHERE time >= $1 ORDER BY time LIMIT {MOST_LOAD_ROWS}"
    );
    reader.all(&sql, &[&since.0], |row| {
        let (time, json): (_, String) = (time(row, 0)?, row.value(1)?);
        Ok(LoadRow { time, sample: of(format_args!("the load at {}", time.0), from_json(&json))? })
    })
}
