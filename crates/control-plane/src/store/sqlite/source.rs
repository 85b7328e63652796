//! The database of a data directory as the source of a copy.

use std::path::Path;

use rusqlite::Row;

use super::file::{FILE, io};
use super::open::open;
use super::{SqliteStore, row};
use crate::store::StoreError;

/// Locked and of this release's format, as the store is once it is open.
pub(in crate::store) struct Source(SqliteStore);

// === impl Source ===

impl Source {
    /// Creates nothing.
    pub(in crate::store) fn open(dir: &Path) -> Result<Self, StoreError> {
        let file = dir.join(FILE);
        std::fs::metadata(&file).map_err(|source| io(&file, source))?;
        Ok(Self(open(dir)?.0))
    }

    /// Each table with each of its columns.
    pub(in crate::store) fn columns(&self) -> Result<Vec<(String, String)>, StoreError> {
        let mut statement = self.0.connection.prepare(
            "SELECT t.name, c.name FROM sqlite_schema AS t, pragma_table_info(t.name) AS c
             WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite~_%' ESCAPE '~'
             ORDER BY t.name, c.cid",
        )?;
        row::all(&mut statement, [], |row| Ok((row.get(0)?, row.get(1)?)))
    }

    pub(in crate::store) fn scan<E: From<StoreError>>(
        &self,
        sql: &str,
        mut each: impl FnMut(&Row<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut statement = self.0.connection.prepare(sql).map_err(StoreError::from)?;
        let mut rows = statement.query([]).map_err(StoreError::from)?;
        while let Some(row) = rows.next().map_err(StoreError::from)? {
            each(row)?;
        }
        Ok(())
    }
}
