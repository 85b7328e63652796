//! Conditions: what has to become of other jobs before anything of a job may start.
//!
//! A state in which a job is over never changes, so conditions are derived from the states of the
//! jobs they name, and nothing of them is stored: a start of the orchestrator finds them as they
//! were.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use api_types::JobId;
use api_types::dependency::{Condition, Indexes};
use api_types::job::JobStateType;

use crate::counterparts::{self, Counterparts};
use crate::outcomes::Past;
use crate::text::Text;
use crate::time::Moment;

/// What the message of a job begins with, or that of a slot, which did not run because of another.
pub(crate) const NOT_RUN: &str = "not run: ";

/// The same if what the job was for did not happen.
pub(crate) const SKIPPED: &str = "skipped: ";

/// The conditions of a job, all of which must hold.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) list: Box<[Awaited]>,
    /// Since when all of them hold, or the first slot may start if the slots have their own.
    pub(crate) held_since: Option<Moment>,
    /// The slots that wait for those of other jobs one by one.
    pub(crate) counterparts: Option<Counterparts>,
}

/// A condition on another job, as memory keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    pub(crate) job: JobId,
    pub(crate) condition: Condition,
    pub(crate) indexes: Indexes,
    /// One text for all that name the job alike: ten thousand may.
    pub(crate) name: Arc<str>,
}

/// A job that conditions name, while one of those that name it waits.
#[derive(Debug, Default)]
pub(crate) struct Named {
    /// Unless the job goes on.
    pub(crate) ended: Option<Ended>,
    pub(crate) name: Arc<str>,
    /// The jobs that wait and name it.
    pub(crate) dependants: BTreeSet<JobId>,
    /// Those of them whose slots wait for its slots.
    pub(crate) matched: BTreeSet<JobId>,
    /// What became of its slots, once it is no longer live and some wait for them.
    pub(crate) past: Option<Arc<Past>>,
}

/// What a turn knows of a job that is named.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Unless the job goes on.
    pub(crate) ended: Option<Ended>,
    pub(crate) past: Option<Arc<Past>>,
}

/// How and when a named job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    /// None: it is not stored any more.
    pub(crate) state: Option<JobStateType>,
    pub(crate) at: Moment,
}

/// What is known of the conditions of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Open,
    /// The last of them holds since this moment; [`Moment::ZERO`] without conditions.
    Holds(Moment),
    /// They can no longer hold: the job ends in this state.
    Never(JobStateType, Text),
}

/// What follows from the end of a named job for a condition on it.
enum Finding {
    Holds,
    Never(JobStateType, String),
}

// === Conditions ===

/// Whether the conditions of the job as a whole hold, by what became of the jobs that they name. Of
/// several that can no longer hold, a failure decides.
pub(crate) fn verdict(list: &[Awaited], ended: impl Fn(JobId) -> Option<Ended>) -> Verdict {
    let (mut open, mut last) = (false, Moment::ZERO);
    let mut never: Option<(JobStateType, String)> = None;
    for awaited in list {
        let Some(Ended { state, at }) = ended(awaited.job) else {
            // Of the others, each slot waits.
            open |= awaited.indexes.is_all();
            continue;
        };
        let Awaited { condition, indexes, name, .. } = awaited;
        match finding(*condition, *indexes, name, state) {
            Finding::Holds => last = last.max(at),
            Finding::Never(to, why) => {
                let decides = to == JobStateType::Failed
                    && never.as_ref().is_some_and(|(former, _)| *former != JobStateType::Failed);
                if never.is_none() || decides {
                    never = Some((to, why));
                }
            }
        }
    }
    match never {
        Some((to, why)) => Verdict::Never(to, why.into()),
        None if open => Verdict::Open,
        None => Verdict::Holds(last),
    }
}

/// The table of `docs/api.md`, "Dependencies".
fn finding(
    condition: Condition,
    indexes: Indexes,
    name: &str,
    state: Option<JobStateType>,
) -> Finding {
    match (condition, state) {
        (_, None) => {
            let why = format!("{NOT_RUN}job '{name}', on which it depends, was removed");
            Finding::Never(JobStateType::Failed, why)
        }
        (Condition::Ended, Some(_))
        | (Condition::Completed, Some(JobStateType::Completed))
        | (Condition::Failed, Some(JobStateType::Failed)) => Finding::Holds,
        // Each slot has its own.
        (Condition::Completed, Some(JobStateType::Failed)) if !indexes.is_all() => Finding::Holds,
        (Condition::Completed, Some(JobStateType::Failed)) => {
            Finding::Never(JobStateType::Failed, format!("{NOT_RUN}job '{name}' failed"))
        }
        (Condition::Completed, Some(_)) => {
            Finding::Never(JobStateType::Stopped, format!("{NOT_RUN}job '{name}' was stopped"))
        }
        (Condition::Failed, Some(JobStateType::Completed)) => {
            let why = format!("{SKIPPED}job '{name}' completed, so it did not fail");
            Finding::Never(JobStateType::Stopped, why)
        }
        (Condition::Failed, Some(_)) => {
            let why = format!("{SKIPPED}job '{name}' was stopped, so it did not fail");
            Finding::Never(JobStateType::Stopped, why)
        }
    }
}

/// Whether a condition on a whole job can no longer hold, which ended in this state.
pub(crate) fn is_broken(condition: Condition, state: JobStateType) -> bool {
    matches!(finding(condition, Indexes::All, "", Some(state)), Finding::Never(..))
}

/// What a job says whose conditions do not all hold yet: the first of them, and how many there are.
pub(crate) fn message(list: &[Awaited], ended: impl Fn(JobId) -> Option<Ended>) -> Text {
    let mut open = list.iter().filter(|awaited| ended(awaited.job).is_none());
    let Some(first) = open.next() else { return Text::Constant("its turn has not come yet") };
    let what = match first.condition {
        Condition::Completed => "completed",
        Condition::Failed => "failed",
        Condition::Ended => "ended",
    };
    let name = &first.name;
    let first = match first.indexes {
        Indexes::All => format!("job '{name}' has not {what} yet"),
        Indexes::Same => counterparts::message(name),
    };
    match open.count() {
        0 => first.into(),
        1 => format!("{first}, and 1 more job has not ended").into(),
        more => format!("{first}, and {more} more jobs have not ended").into(),
    }
}

// === impl Conditions ===

impl Conditions {
    /// Of a job with this number of slots.
    pub(crate) fn new(list: Box<[Awaited]>, slots: u32) -> Self {
        let of_slots = list.iter().any(|awaited| !awaited.indexes.is_all());
        let counterparts = of_slots.then(|| Counterparts::new(slots));
        Self { list, held_since: None, counterparts }
    }
}

#[cfg(test)]
mod tests;
