//! A batch as the statements that store it.
//!
//! Some statements need what is stored already: the numbers of jobs, and what keeps them from
//! retention. It is read before the transaction begins. That is sound because the fence lets the
//! transaction pass only if no commit came in between.

mod dependencies;
mod events;
mod executions;
mod jobs;
mod nodes;
mod outputs;
mod records;
mod slots;

use std::collections::HashSet;

use api_types::JobId;
use scheduler::change::Changes;

use super::known::Known;
use super::link::Link;
use super::values::{Rows, Step};
use crate::store::ended::EndedJobs;
use crate::store::{Removed, StoreError, Write};

pub(super) use self::slots::NO_LONGER_PENDING;

/// The statements of a commit, as they come together.
pub(super) struct Writing<'a> {
    link: &'a mut Link,
    known: &'a mut Known,
    ended: &'a mut EndedJobs,
    steps: Vec<Step>,
    /// How many more jobs retention may remove.
    more_ended: i64,
}

/// What a commit becomes, in addition to the fence.
#[derive(Default)]
pub(super) struct Written {
    pub(super) steps: Vec<Step>,
    pub(super) more_ended: i64,
    pub(super) removed: Removed,
}

/// Encodes a batch; what is not a batch has no rows.
pub(super) async fn encode(
    link: &mut Link,
    known: &mut Known,
    ended: &mut EndedJobs,
    write: Write<'_>,
) -> Result<Written, StoreError> {
    let mut writing = Writing { link, known, ended, steps: Vec::new(), more_ended: 0 };
    if let Write::Batch { changes, keys, records, audit, loads } = write {
        writing.changes(changes).await?;
        writing.keys(keys);
        writing.records(records);
        writing.audit(audit)?;
        writing.loads(loads)?;
        writing.known.shrink();
    }
    let Writing { steps, more_ended, .. } = writing;
    Ok(Written { steps, more_ended, removed: Removed::default() })
}

// === impl Writing ===

impl Writing<'_> {
    async fn changes(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let new: HashSet<_> = changes.new_jobs.iter().map(|job| job.id).collect();
        let stored = concerned(changes).filter(|id| !new.contains(id));
        self.known.find(self.link, stored).await?;
        self.jobs(changes)?;
        self.dependencies(changes).await?;
        self.graphs(changes)?;
        self.executions(changes)?;
        self.outputs(&changes.outputs)?;
        self.successors(changes);
        self.slots(changes)?;
        self.nodes(changes)?;
        self.events(&changes.events)?;
        Ok(())
    }

    fn add(&mut self, rows: Rows) {
        self.steps.extend(rows.step());
    }
}

/// The jobs whose numbers a commit needs.
fn concerned(changes: &Changes) -> impl Iterator<Item = JobId> {
    let named = changes.new_jobs.iter().flat_map(|job| &job.depends_on);
    changes
        .jobs
        .keys()
        .copied()
        .chain(changes.executions.values().map(|row| row.job))
        .chain(changes.pending_slots.keys().map(|(job, _)| *job))
        .chain(changes.outcomes.keys().map(|(job, _)| *job))
        .chain(changes.begun.iter().map(|(job, _)| *job))
        .chain(changes.first_failures.iter().map(|(job, _)| *job))
        .chain(changes.unplaced.iter().map(|(job, _, _)| *job))
        .chain(changes.new_graphs.iter().flat_map(|graph| graph.jobs.iter().map(|(_, job)| *job)))
        .chain(named.map(|dependency| dependency.job_id))
        .chain(changes.released.iter().copied())
        .chain(changes.events.iter().filter_map(|event| event.job()))
}
