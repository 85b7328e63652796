//! The load of the cluster over the last week.

use api_types::Timestamp;
use rusqlite::{Connection, Transaction, params};

use super::row::{self, bad_record};
use crate::store::{LOAD_RETENTION, LoadRow, MOST_LOAD_ROWS, StoreError};

/// A row every two minutes, each with a sample as JSON. An older release leaves the rows alone.
pub(super) const STEP: &str = "
CREATE TABLE cluster_load (time INTEGER PRIMARY KEY, sample TEXT NOT NULL);
";

/// Each new row removes the expired ones.
pub(super) fn write(transaction: &Transaction<'_>, loads: &[LoadRow]) -> Result<(), StoreError> {
    for LoadRow { time, sample } in loads {
        let json = serde_json::to_string(sample).map_err(bad_record)?;
        transaction
            .prepare_cached("INSERT OR REPLACE INTO cluster_load (time, sample) VALUES (?1, ?2)")?
            .execute(params![time.0, json])?;
        transaction
            .prepare_cached("DELETE FROM cluster_load WHERE time < ?1")?
            .execute([(*time - LOAD_RETENTION).0])?;
    }
    Ok(())
}

pub(super) fn since(connection: &Connection, since: Timestamp) -> Result<Vec<LoadRow>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT time, sample FROM cluster_load WHERE time >= ?1 ORDER BY time LIMIT ?2",
    )?;
    row::all(&mut statement, params![since.0, MOST_LOAD_ROWS], |row| {
        let json: String = row.get(1)?;
        let sample = serde_json::from_str(&json).map_err(bad_record)?;
        Ok(LoadRow { time: row::time(row, 0)?, sample })
    })
}

#[cfg(test)]
mod tests {
    use api_types::cluster::LoadSample;

    use super::*;

    #[test]
    fn a_week_is_kept() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(STEP).unwrap();
        let now = Timestamp(1_700_000_000_000_000_000);
        let row = |time| LoadRow { time, sample: LoadSample::empty(time) };
        let rows = [row(now - LOAD_RETENTION), row(now - LOAD_RETENTION / 2), row(now)];
        let transaction = connection.transaction().unwrap();
        write(&transaction, &rows).unwrap();
        let later = row(now + std::time::Duration::from_secs(120));
        write(&transaction, std::slice::from_ref(&later)).unwrap();
        transaction.commit().unwrap();
        let [_, second, third] = rows;
        assert_eq!(since(&connection, Timestamp(0)).unwrap(), [second, third, later.clone()]);
        assert_eq!(since(&connection, later.time).unwrap(), [later]);
    }
}
