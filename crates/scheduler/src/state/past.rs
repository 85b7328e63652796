//! What became of the slots of jobs on which others depend, once they have ended.

use crate::change::JobRow;
use crate::outcomes::{Outcomes, Past};
use crate::state::job::LiveJob;
use crate::turn::Turn;

/// What became of the slots of a job that is removed from memory.
pub(crate) fn past_of(job: &LiveJob) -> Past {
    let row = job.row();
    let outcomes = match row.slots.len() {
        0 | 1 => Outcomes::of_one(&row.slots, row.completed, row.failed_slots),
        _ => job.extras.outcomes.clone(),
    };
    Past { slots: row.slots.clone(), outcomes }
}

/// The same of one that has ended within the turn, of which this was stored before.
pub(crate) fn past_within(turn: &Turn<'_>, row: &JobRow, stored: Option<&Past>) -> Past {
    let slots = row.slots.clone();
    let outcomes = match slots.len() {
        0 | 1 => Outcomes::of_one(&slots, row.completed, row.failed_slots),
        _ => {
            let mut outcomes = stored.map_or(Outcomes::NONE, |past| past.outcomes.clone());
            let changed = turn.out.changes.outcomes.range((row.id, 0)..=(row.id, u32::MAX));
            for ((_, number), chunk) in changed {
                outcomes.insert(*number, chunk.clone());
            }
            outcomes
        }
    };
    Past { slots, outcomes }
}
