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
use api_types::dependency::Condition;
use api_types::job::JobStateType;

use crate::text::Text;
use crate::time::Moment;

/// The conditions of a job, all of which must hold.
#[derive(Debug)]
pub(crate) struct Conditions {
    pub(crate) list: Box<[Awaited]>,
    /// Since when all of them hold.
    pub(crate) held_since: Option<Moment>,
}

/// A condition on another job, as memory keeps it.
#[derive(Debug, Clone)]
pub(crate) struct Awaited {
    pub(crate) job: JobId,
    pub(crate) condition: Condition,
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

/// Whether the conditions hold, by what became of the jobs that they name. Of several that can no
/// longer hold, a failure decides.
pub(crate) fn verdict(list: &[Awaited], ended: impl Fn(JobId) -> Option<Ended>) -> Verdict {
    let (mut open, mut last) = (false, Moment::ZERO);
    let mut never: Option<(JobStateType, String)> = None;
    for awaited in list {
        let Some(Ended { state, at }) = ended(awaited.job) else {
            open = true;
            continue;
        };
        match finding(awaited, state) {
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
fn finding(awaited: &Awaited, state: Option<JobStateType>) -> Finding {
    let Awaited { condition, name, .. } = awaited;
    match (condition, state) {
        (_, None) => {
            let why = format!("not run: job '{name}', on which it depends, was removed");
            Finding::Never(JobStateType::Failed, why)
        }
        (Condition::Ended, Some(_))
        | (Condition::Completed, Some(JobStateType::Completed))
        | (Condition::Failed, Some(JobStateType::Failed)) => Finding::Holds,
        (Condition::Completed, Some(JobStateType::Failed)) => {
            Finding::Never(JobStateType::Failed, format!("not run: job '{name}' failed"))
        }
        (Condition::Completed, Some(_)) => {
            Finding::Never(JobStateType::Stopped, format!("not run: job '{name}' was stopped"))
        }
        (Condition::Failed, Some(JobStateType::Completed)) => {
            let why = format!("skipped: job '{name}' completed, so it did not fail");
            Finding::Never(JobStateType::Stopped, why)
        }
        (Condition::Failed, Some(_)) => {
            let why = format!("skipped: job '{name}' was stopped, so it did not fail");
            Finding::Never(JobStateType::Stopped, why)
        }
    }
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
    match open.count() {
        0 => format!("job '{name}' has not {what} yet").into(),
        1 => format!("job '{name}' has not {what} yet, and 1 more job has not ended").into(),
        more => {
            format!("job '{name}' has not {what} yet, and {more} more jobs have not ended").into()
        }
    }
}

// === impl Conditions ===

impl Conditions {
    pub(crate) fn new(list: Box<[Awaited]>) -> Self {
        Self { list, held_since: None }
    }
}

#[cfg(test)]
mod tests;
