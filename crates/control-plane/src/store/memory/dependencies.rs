//! What the store in memory knows of jobs on which others depend.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_types::JobId;
use api_types::dependency::{Dependency, Indexes};
use api_types::job::JobSpec;
use scheduler::change::{JobRow, NamedJob};
use scheduler::outcomes::{Outcomes, Past};

use super::MemoryStore;

impl MemoryStore {
    /// What is stored of these jobs for those that depend on them; with `Same`, also what became of
    /// their slots.
    pub fn named_jobs(&self, ids: &BTreeMap<JobId, Indexes>) -> Vec<NamedJob> {
        let rows = ids.iter().filter_map(|(id, indexes)| Some((self.jobs.get(id)?, *indexes)));
        let named = |(row, indexes): (&JobRow, Indexes)| NamedJob {
            id: row.id,
            state: row.state,
            ended_at: row.ended_at,
            past: (indexes == Indexes::Same).then(|| Arc::new(self.past_of(row))),
        };
        rows.map(named).collect()
    }

    /// The same of those that this one depends on.
    pub fn named_by(&self, spec: &JobSpec) -> Vec<NamedJob> {
        self.named_jobs(&named(&spec.depends_on))
    }

    fn past_of(&self, row: &JobRow) -> Past {
        let slots = row.slots.clone();
        let outcomes = match slots.len() {
            0 | 1 => Outcomes::of_one(&slots, row.completed, row.failed_slots),
            _ => self.outcomes_of(row.id),
        };
        Past { slots, outcomes }
    }

    /// The jobs that live ones depend on.
    pub(super) fn kept(&self) -> BTreeMap<JobId, Indexes> {
        let live = self.new_jobs.values().filter(|new| !new.depends_on.is_empty());
        let live = live.filter(|new| self.jobs.get(&new.id).is_some_and(|row| row.live));
        named(live.flat_map(|new| &new.depends_on))
    }
}

fn named<'a>(list: impl IntoIterator<Item = &'a Dependency>) -> BTreeMap<JobId, Indexes> {
    let mut named = BTreeMap::new();
    for Dependency { job_id, indexes, .. } in list {
        let known = named.entry(*job_id).or_insert(*indexes);
        *known = (*known).max(*indexes);
    }
    named
}
