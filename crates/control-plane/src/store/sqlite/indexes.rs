//! The chunks of outcomes of a job, and which indexes it has.

use rusqlite::Connection;
use scheduler::outcomes::{Chunk, Outcomes};
use scheduler::slots::Slots;

use super::row;
pub(super) use super::row::indexes::indexes;
use crate::store::StoreError;

/// The slots of the job with this number, whose columns `slots` and `indexes` these are.
pub(super) fn slots(
    connection: &Connection,
    number: i64,
    count: u32,
    indexes: Option<String>,
) -> Result<Slots, StoreError> {
    row::indexes::slots(count, indexes, || chunks(connection, number))
}

/// What is stored of the slots of the job with this number.
pub(super) fn chunks(connection: &Connection, number: i64) -> Result<Outcomes, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT chunk, bits FROM slot_outcome WHERE job = ?1 ORDER BY chunk")?;
    let mut outcomes = Outcomes::default();
    let mut rows = statement.query([number])?;
    while let Some(row) = rows.next()? {
        outcomes.insert(row.get(0)?, Chunk::from(row.get::<_, Vec<u8>>(1)?.into_boxed_slice()));
    }
    Ok(outcomes)
}
