//! What did not run because of a job that ended, and so may run once that has run again.
//!
//! A job that completed is not repeated, nor is one that failed by itself. Of a job whose slots wait
//! for those of another one by one, only the slots run again that did not run for that reason.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use api_types::JobId;
use api_types::dependency::{Condition, Dependency, Indexes};
use api_types::job::JobStateType;

use crate::dependency::{NOT_RUN, SKIPPED, is_broken};
use crate::outcomes::{Past, SlotOutcome};
use crate::slots::Slots;

/// A job as it is stored.
#[derive(Debug, Clone)]
pub struct Stored {
    pub depends_on: Vec<Dependency>,
    pub state: JobStateType,
    pub message: String,
    pub past: Past,
}

/// What runs again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The slots of each job; none of a job that has not been placed and gets them when it is.
    pub again: BTreeMap<JobId, Slots>,
    /// Jobs that could not run all the same, and why.
    pub left_out: Vec<(JobId, String)>,
}

/// The jobs of which some or all may run again.
struct Family<'a> {
    /// These, and the jobs that they depend on, as far as they are stored.
    jobs: &'a BTreeMap<JobId, Stored>,
    again: &'a BTreeMap<JobId, Slots>,
}

// === Selection ===

/// What runs again after this job, of which these slots do. `order` has the jobs that may, each after
/// those that it depends on.
pub fn select(
    root: JobId,
    slots: Slots,
    order: &[JobId],
    jobs: &BTreeMap<JobId, Stored>,
) -> Selection {
    let mut again = BTreeMap::from([(root, slots)]);
    let mut left_out = Vec::new();
    for id in order {
        let Some(job) = jobs.get(id) else { continue };
        let family = Family { jobs, again: &again };
        if !family.is_because(job) {
            continue;
        }
        match family.slots(job) {
            Ok(slots) => drop(again.insert(*id, slots)),
            Err(why) => left_out.push((*id, why)),
        }
    }
    Selection { again, left_out }
}

// === impl Family ===

impl Family<'_> {
    /// Whether the job, or a slot of it, did not run because of one that runs again.
    fn is_because(&self, job: &Stored) -> bool {
        job.depends_on.iter().any(|on| {
            let Some((named, slots)) = self.jobs.get(&on.job_id).zip(self.again.get(&on.job_id))
            else {
                return false;
            };
            match on.indexes {
                Indexes::All => is_not_run(job) && is_broken(on.condition, named.state),
                Indexes::Same => {
                    let is_left = |index: &u32| {
                        job.past.get(*index) == SlotOutcome::Failed && !completed(named, *index)
                    };
                    named.state != JobStateType::Completed
                        && (is_not_run(job) || slots.iter().any(|index| is_left(&index)))
                }
            }
        })
    }

    /// The slots of the job that can run, or why none can.
    fn slots(&self, job: &Stored) -> Result<Slots, String> {
        for on in &job.depends_on {
            self.check(on)?;
        }
        if job.past.slots.is_empty() {
            return Ok(Slots::default());
        }
        let fails_by_itself =
            |index| job.past.get(index) == SlotOutcome::Failed && !self.is_explained(job, index);
        let may_be_open = is_not_run(job) && !job.past.slots.iter().any(fails_by_itself);
        let runs = |index: &u32| match job.past.get(*index) {
            SlotOutcome::Completed => false,
            SlotOutcome::Failed => {
                self.is_explained(job, *index) && self.has_counterparts(job, *index)
            }
            SlotOutcome::ToDo | SlotOutcome::Absent => {
                may_be_open && self.has_counterparts(job, *index)
            }
        };
        let slots: Slots = job.past.slots.iter().filter(runs).collect();
        match slots.is_empty() {
            true => Err("none of its indexes could run".into()),
            false => Ok(slots),
        }
    }

    /// Whether a condition of a job that runs again can hold.
    fn check(&self, on: &Dependency) -> Result<(), String> {
        let name = &on.job;
        let Some(named) = self.jobs.get(&on.job_id) else {
            return Err(format!("it depends on job '{name}' too, which is not stored any more"));
        };
        match (self.again.get(&on.job_id), on.indexes) {
            (_, Indexes::Same) => Ok(()),
            (Some(slots), Indexes::All) => {
                let runs = |index| completed(named, index) || slots.contains(index);
                let is_whole =
                    on.condition != Condition::Completed || named.past.slots.iter().all(runs);
                let why = || format!("other indexes of job '{name}' have not completed either");
                is_whole.then_some(()).ok_or_else(why)
            }
            (None, Indexes::All) if is_broken_now(on.condition, named.state) => {
                let state = named.state;
                Err(format!("it depends on job '{name}' too, which is {state}"))
            }
            (None, Indexes::All) => Ok(()),
        }
    }

    /// Whether the slot failed because of a counterpart.
    fn is_explained(&self, job: &Stored, index: u32) -> bool {
        of_slots(job).any(|on| self.jobs.get(&on.job_id).is_none_or(|it| !completed(it, index)))
    }

    /// Whether each counterpart of the slot has completed, or runs.
    fn has_counterparts(&self, job: &Stored, index: u32) -> bool {
        of_slots(job).all(|on| {
            let Some(named) = self.jobs.get(&on.job_id) else { return false };
            let runs = match self.again.get(&on.job_id) {
                Some(slots) => slots.contains(index),
                None => !named.state.is_terminal(),
            };
            runs || completed(named, index)
        })
    }
}

fn of_slots(job: &Stored) -> impl Iterator<Item = &Dependency> {
    job.depends_on.iter().filter(|on| !on.indexes.is_all())
}

/// A rerun lacks what had completed before.
fn completed(job: &Stored, index: u32) -> bool {
    matches!(job.past.get(index), SlotOutcome::Completed | SlotOutcome::Absent)
}

fn is_broken_now(condition: Condition, state: JobStateType) -> bool {
    state.is_terminal() && is_broken(condition, state)
}

/// Whether the job ended because a condition of it could no longer hold, as its message says.
fn is_not_run(job: &Stored) -> bool {
    let message = &job.message;
    match job.state {
        JobStateType::Failed if of_slots(job).next().is_some() => message.contains(NOT_RUN),
        JobStateType::Failed => message.starts_with(NOT_RUN),
        JobStateType::Stopped => message.starts_with(NOT_RUN) || message.starts_with(SKIPPED),
        JobStateType::Pending
        | JobStateType::Queued
        | JobStateType::Running
        | JobStateType::Completed => false,
    }
}

#[cfg(test)]
mod tests;
