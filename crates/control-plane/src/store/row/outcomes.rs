//! What became of the slots of a job, as its row or its chunks of outcomes say.

use scheduler::outcomes::Outcomes;
use scheduler::slots::Slots;

use crate::store::StoreError;

/// The outcomes of these slots. Only a job with several has chunks; of a single slot, the numbers of
/// completed and failed ones say all.
pub(in crate::store) fn of_slots(
    slots: &Slots,
    (completed, failed): (u32, u32),
    chunks: impl FnOnce() -> Result<Outcomes, StoreError>,
) -> Result<Outcomes, StoreError> {
    match slots.len() {
        0 | 1 => Ok(Outcomes::of_one(slots, completed, failed)),
        _ => chunks(),
    }
}
