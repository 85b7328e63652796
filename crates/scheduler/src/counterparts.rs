//! Slots that wait for the same slots of other jobs, one by one.
//!
//! What has become of a slot here and there is in the tables of outcomes, so that nothing else is
//! stored of it: a start of the orchestrator derives which slots may be placed.

use alloc::format;
use alloc::string::String;

use api_types::job::JobStateType;

use crate::dependency::NOT_RUN;
use crate::outcomes::SlotOutcome;
use crate::slot_set::SlotSet;
use crate::text::Text;

/// The slots of a job that has conditions on the same slots of others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counterparts {
    /// Slots that were never tried and may be placed.
    ready: SlotSet,
    /// Slots that do not wait for their counterparts any more.
    decided: SlotSet,
    /// How many of them do.
    waiting: u32,
}

/// What is known of a slot's counterparts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Finding {
    Open,
    /// All have completed.
    Ready,
    /// One never will.
    Never(Text),
}

// === impl Counterparts ===

impl Counterparts {
    /// Of a job with this number of slots, all of which wait.
    pub(crate) fn new(slots: u32) -> Self {
        Self { ready: SlotSet::default(), decided: SlotSet::default(), waiting: slots }
    }

    pub(crate) fn ready(&self) -> &SlotSet {
        &self.ready
    }

    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    pub(crate) fn waits(&self, index: u32) -> bool {
        !self.decided.contains(index)
    }

    /// The slot does not wait for its counterparts, or not any more.
    pub(crate) fn decide(&mut self, index: u32) {
        if self.decided.insert(index) {
            self.waiting -= 1;
        }
    }

    /// All counterparts of the slot have completed.
    pub(crate) fn release(&mut self, index: u32) {
        self.decide(index);
        self.ready.insert(index);
    }

    /// The slot is placed.
    pub(crate) fn take(&mut self, index: u32) {
        self.ready.remove(index);
    }
}

// === Findings ===

/// What follows for a slot from its counterpart in the job of this name, which has ended if it has a
/// state. A job that was stopped or removed ends the whole job, so that nothing follows for a slot.
pub(crate) fn finding(
    index: u32,
    name: &str,
    found: SlotOutcome,
    ended: Option<JobStateType>,
) -> Finding {
    match (found, ended) {
        // A rerun leaves out what has completed before.
        (SlotOutcome::Completed | SlotOutcome::Absent, _) => Finding::Ready,
        (SlotOutcome::Failed, _) => {
            Finding::Never(format!("{NOT_RUN}[{index}] of job '{name}' failed").into())
        }
        (SlotOutcome::ToDo, Some(JobStateType::Failed)) => {
            let why = format!("{NOT_RUN}job '{name}' failed before its [{index}] completed");
            Finding::Never(why.into())
        }
        (SlotOutcome::ToDo, _) => Finding::Open,
    }
}

/// What a job says whose slots wait for those of another.
pub(crate) fn message(name: &str) -> String {
    format!("each index waits for the same one of job '{name}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_other_job_decides_what_has_not_ended_there() {
        use JobStateType::{Completed, Failed, Stopped};
        let never = |text: &str| Finding::Never(Text::from(String::from(text)));
        let failed = never("not run: [3] of job 'a' failed");
        let late = never("not run: job 'a' failed before its [3] completed");
        for (found, ended, expected) in [
            (SlotOutcome::Completed, None, Finding::Ready),
            (SlotOutcome::Completed, Some(Failed), Finding::Ready),
            (SlotOutcome::Completed, Some(Completed), Finding::Ready),
            (SlotOutcome::Absent, None, Finding::Ready),
            (SlotOutcome::Failed, None, failed.clone()),
            (SlotOutcome::Failed, Some(Failed), failed),
            (SlotOutcome::ToDo, None, Finding::Open),
            (SlotOutcome::ToDo, Some(Failed), late),
            (SlotOutcome::ToDo, Some(Stopped), Finding::Open),
        ] {
            assert_eq!(finding(3, "a", found, ended), expected, "{found:?} {ended:?}");
        }
    }

    #[test]
    fn a_slot_waits_until_it_is_decided_and_is_ready_until_it_is_placed() {
        let mut slots = Counterparts::new(3);
        slots.release(2);
        slots.decide(0);
        slots.decide(0);
        assert_eq!((slots.waiting(), slots.ready().len()), (1, 1));
        assert!(slots.waits(1) && !slots.waits(2));
        slots.take(2);
        assert_eq!((slots.waiting(), slots.ready().first()), (1, None));
    }
}
