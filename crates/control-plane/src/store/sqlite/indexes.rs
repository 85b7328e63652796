//! Which indexes a job has, as its row or its chunks of outcomes say.

use rusqlite::Connection;
use scheduler::outcomes::{Chunk, Outcomes};
use scheduler::slots::Slots;

use super::row::bad_record;
use crate::store::StoreError;

/// What the column `indexes` holds of slots that a text should not list, since each change of the row
/// writes it again: the chunks of outcomes say which they are.
const SCATTERED: &str = "chunks";

/// What the column `indexes` holds after the number of slots: nothing, for nearly all jobs.
pub(super) fn indexes(slots: &Slots) -> Option<String> {
    if slots.is_scattered() {
        return Some(SCATTERED.to_owned());
    }
    (*slots != Slots::below(slots.len())).then(|| slots.to_string())
}

/// The slots of the job with this number, whose columns `slots` and `indexes` these are.
pub(super) fn slots(
    connection: &Connection,
    number: i64,
    count: u32,
    indexes: Option<String>,
) -> Result<Slots, StoreError> {
    match indexes {
        None => Ok(Slots::below(count)),
        Some(indexes) if indexes == SCATTERED => {
            let slots = chunks(connection, number)?.slots();
            match slots.len() == count {
                true => Ok(slots),
                false => Err(bad_record(format!("{} of {count} indexes", slots.len()))),
            }
        }
        Some(indexes) => indexes.parse().map_err(bad_record),
    }
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
