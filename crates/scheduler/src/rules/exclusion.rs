//! An exclusion of a slot ends.

use api_types::JobId;

use crate::state::State;
use crate::time::Moment;

pub(crate) fn exclusion_ended(state: &mut State, now: Moment, id: JobId, index: u32) {
    if !state.leave_secondary_class(id, index) {
        return;
    }
    state.slot_is_ready(now, id, index);
    state.marks.jobs.push(id);
}
