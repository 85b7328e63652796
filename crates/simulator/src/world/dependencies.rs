//! Jobs that depend on earlier ones: as a whole, or slot by slot.

use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::job::{JobSpec, JobType};

use super::World;
use crate::workload::{self, ExpectedEnd, RequestState};

/// Arrays of which each waits for the one before it.
const ARRAYS: usize = 3;

/// Slots of each of them.
const SLOTS: u32 = 6;

// === impl World: dependencies ===

impl World {
    /// Submits arrays whose slots wait for those of the one before, and run one after the other, so
    /// that some are ready for long before they run. Some slots of the first one fail.
    pub(super) fn submit_arrays(&mut self) {
        let delay = self.random.millis(0..20_000);
        let mut before = None;
        for at in 0..ARRAYS {
            let mut spec = workload::plain(&mut self.random, "0.25", 60);
            (spec.count, spec.max_failed) = (SLOTS, -1);
            if at == 0 {
                spec.retry_policy.attempts = 1;
            } else {
                (spec.name, spec.max_running) = (workload::sleep(2), 1);
            }
            let request = self.submit(spec, ExpectedEnd::Ends, delay);
            if let Some(before) = before.replace(request) {
                self.matched.insert(request, before);
            }
        }
    }

    /// Has a job depend on earlier ones, if it is to.
    pub(super) fn add_dependencies(&self, request: usize, spec: &mut JobSpec) {
        if let Some(other) = self.matched.get(&request)
            && let Some(job_id) = self.job_of(*other)
        {
            let (condition, indexes) = (Condition::Completed, Indexes::Same);
            spec.depends_on =
                vec![Dependency { job_id, job: "before".to_owned(), condition, indexes }];
        }
        if self.chained.contains(&request) {
            spec.depends_on = self.dependencies(request);
            if (request / 2).is_multiple_of(2) {
                self.match_slots(spec);
            }
        }
    }

    /// On the two jobs before it that were accepted and end by themselves.
    fn dependencies(&self, request: usize) -> Vec<Dependency> {
        let accepted = self.expected_ends.range(..request).rev().filter_map(|(number, end)| {
            let RequestState::Answered { job } = self.requests[*number].state else { return None };
            job.filter(|_| *end == ExpectedEnd::Ends)
        });
        let condition = |at: usize| Condition::ALL[(request / 2 + at) % Condition::ALL.len()];
        let named = accepted.take(2).enumerate();
        named
            .map(|(at, job_id)| Dependency {
                job_id,
                job: "other".to_owned(),
                condition: condition(at),
                indexes: Indexes::All,
            })
            .collect()
    }

    /// Has the slots of a batch job wait for those of another one that it depends on, one by one.
    fn match_slots(&self, spec: &mut JobSpec) {
        if spec.job_type != JobType::Batch {
            return;
        }
        let specs = &self.orchestrator.disk.specs;
        for dependency in &mut spec.depends_on {
            let Some(other) = specs.get(&dependency.job_id) else { continue };
            if other.job_type == JobType::Batch {
                (dependency.condition, dependency.indexes) = (Condition::Completed, Indexes::Same);
                spec.count = other.count;
                return;
            }
        }
    }
}
