//! Rows of PostgreSQL, whose numbers are `bigint`, and whose texts and IDs are `bytea`.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

pub(super) use crate::store::row::*;
use crate::store::{Namespaces, StoreError};

// === impl Columns ===

impl Columns for Row {
    fn cell(&self, column: usize) -> Result<Cell<'_>, StoreError> {
        Ok(match *self.columns()[column].type_() {
            Type::INT8 => self.try_get::<_, Option<i64>>(column)?.map_or(Cell::Null, Cell::Integer),
            Type::BYTEA => {
                self.try_get::<_, Option<&[u8]>>(column)?.map_or(Cell::Null, Cell::Bytes)
            }
            Type::BOOL => {
                let value = self.try_get::<_, Option<bool>>(column)?;
                value.map_or(Cell::Null, |value| Cell::Integer(value.into()))
            }
            _ => Cell::Other("of a type that this service does not use"),
        })
    }

    fn name(&self, column: usize) -> String {
        self.columns()[column].name().to_owned()
    }
}

/// The names; none for all.
pub(super) fn name_list(namespaces: &Namespaces) -> Option<Vec<&[u8]>> {
    match namespaces {
        Namespaces::All => None,
        Namespaces::Only(names) => Some(names.iter().map(String::as_bytes).collect()),
    }
}
