//! Which indexes a job has, as its row or its chunks of outcomes say.

use scheduler::outcomes::Outcomes;
use scheduler::slots::Slots;

use super::bad_record;
use crate::store::StoreError;

/// What the column `indexes` holds of slots that a text should not list, since each change of the row
/// writes it again: the chunks of outcomes say which they are.
const SCATTERED: &str = "chunks";

/// What the column `indexes` holds after the number of slots: nothing, for nearly all jobs.
pub(in crate::store) fn indexes(slots: &Slots) -> Option<String> {
    if slots.is_scattered() {
        return Some(SCATTERED.to_owned());
    }
    (*slots != Slots::below(slots.len())).then(|| slots.to_string())
}

/// The slots of the job whose columns `slots` and `indexes` these are, and whose chunks of outcomes
/// are read if they are needed.
pub(in crate::store) fn slots(
    count: u32,
    indexes: Option<String>,
    chunks: impl FnOnce() -> Result<Outcomes, StoreError>,
) -> Result<Slots, StoreError> {
    match indexes {
        None => Ok(Slots::below(count)),
        Some(indexes) if indexes == SCATTERED => {
            let slots = chunks()?.slots();
            match slots.len() == count {
                true => Ok(slots),
                false => Err(bad_record(format!("{} of {count} indexes", slots.len()))),
            }
        }
        Some(indexes) => indexes.parse().map_err(bad_record),
    }
}
