//! Slots that wait, what became of slots, and where those were that were never placed.

use std::collections::BTreeMap;

use scheduler::change::Changes;

use super::Writing;
use crate::store::StoreError;
use crate::store::postgres::values::{Rows, Template, cells};
use crate::store::row::{Id, exclusion_bytes, moment_value};

const PENDING: Template = Template::new(
    "INSERT INTO pending_slot (job, slot, evaluation, pinned, attempt, infra_failures, short_runs,
        exclusions, refused_by, due, previous)
     SELECT * FROM {rows}
     ON CONFLICT (job, slot) DO UPDATE SET evaluation = excluded.evaluation,
        pinned = excluded.pinned, attempt = excluded.attempt,
        infra_failures = excluded.infra_failures, short_runs = excluded.short_runs,
        exclusions = excluded.exclusions, refused_by = excluded.refused_by, due = excluded.due,
        previous = excluded.previous",
    "nnbbnnnbbnb",
);

pub(in crate::store::postgres) const NO_LONGER_PENDING: Template = Template::new(
    "DELETE FROM pending_slot AS p USING {rows} AS u (job, slot)
     WHERE p.job = u.job AND p.slot = u.slot",
    "nn",
);

const OUTCOME: Template = Template::new(
    "INSERT INTO slot_outcome (job, chunk, bits) SELECT * FROM {rows}
     ON CONFLICT (job, chunk) DO UPDATE SET bits = excluded.bits",
    "nnb",
);

const FIRST_FAILURE: Template = Template::new(
    "INSERT INTO first_failure (job, message) SELECT * FROM {rows}
     ON CONFLICT (job) DO UPDATE SET message = excluded.message",
    "nb",
);

const UNPLACED: Template = Template::new(
    "INSERT INTO unplaced_slot (job, slot, node) SELECT * FROM {rows}
     ON CONFLICT (job, slot) DO UPDATE SET node = excluded.node",
    "nnb",
);

impl Writing<'_> {
    /// One statement changes a row once, so that of several changes the last one counts.
    pub(super) fn slots(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let (mut pending, mut gone) = (Rows::new(PENDING), Rows::new(NO_LONGER_PENDING));
        for ((job, slot), row) in &changes.pending_slots {
            let job = self.known.number(*job)?;
            let Some(row) = row else {
                gone.push(cells![job, *slot]);
                continue;
            };
            pending.push(cells![
                job,
                *slot,
                &row.evaluation.bytes(),
                row.pinned.map(Id::bytes).as_ref(),
                row.tries.attempt,
                row.tries.infra_failures,
                row.tries.short_runs,
                exclusion_bytes(&row.tries).as_slice(),
                row.tries.refused_by.map(Id::bytes).as_ref(),
                row.due.map(moment_value),
                row.previous.map(Id::bytes).as_ref(),
            ]);
        }
        let mut outcomes = Rows::new(OUTCOME);
        for ((job, chunk), bits) in &changes.outcomes {
            outcomes.push(cells![self.known.number(*job)?, *chunk, bits.bytes()]);
        }
        let messages: BTreeMap<_, _> =
            changes.first_failures.iter().map(|(job, message)| (*job, message)).collect();
        let mut failures = Rows::new(FIRST_FAILURE);
        for (job, message) in messages {
            failures.push(cells![self.known.number(job)?, &**message]);
        }
        let nodes: BTreeMap<_, _> =
            changes.unplaced.iter().map(|(job, index, node)| ((*job, *index), *node)).collect();
        let mut unplaced = Rows::new(UNPLACED);
        for ((job, index), node) in nodes {
            unplaced.push(cells![self.known.number(job)?, index, &node.bytes()]);
        }
        [gone, pending, outcomes, failures, unplaced].into_iter().for_each(|rows| self.add(rows));
        Ok(())
    }
}
