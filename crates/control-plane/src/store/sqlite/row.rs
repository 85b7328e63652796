//! Rows of SQLite.

use rusqlite::types::ValueRef;
use rusqlite::{Params, Row, Statement};

pub(super) use crate::store::row::*;
use crate::store::{Namespaces, StoreError};

// === impl Columns ===

impl Columns for Row<'_> {
    fn cell(&self, column: usize) -> Result<Cell<'_>, StoreError> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Cell::Null,
            ValueRef::Integer(value) => Cell::Integer(value),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => Cell::Bytes(bytes),
            ValueRef::Real(_) => Cell::Other("a real number"),
        })
    }

    fn name(&self, column: usize) -> String {
        self.as_ref().column_name(column).unwrap_or_default().to_owned()
    }
}

/// Every row of the answer, read by `read`.
pub(super) fn all<'s, T>(
    statement: &'s mut Statement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'s>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut rows = statement.query(params)?;
    let mut items = Vec::new();
    while let Some(row) = rows.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}

/// The only row of the answer, if there is one.
pub(super) fn one<'s, T>(
    statement: &'s mut Statement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'s>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let mut rows = statement.query(params)?;
    rows.next()?.map(read).transpose()
}

/// The row of an answer that always has one.
pub(super) fn only<'s, T>(
    statement: &'s mut Statement<'_>,
    params: impl Params,
    read: impl Fn(&Row<'s>) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    one(statement, params, read)?.ok_or_else(|| rusqlite::Error::QueryReturnedNoRows.into())
}

/// The names as a JSON array, so that one statement serves any number of them; none for all.
pub(super) fn name_list(namespaces: &Namespaces) -> Result<Option<String>, StoreError> {
    match namespaces {
        Namespaces::All => Ok(None),
        Namespaces::Only(names) => serde_json::to_string(names).map(Some).map_err(bad_record),
    }
}
