//! A live job.

use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use api_types::{EvaluationId, ExecutionId, JobId, NodeId};

use crate::change::{Changes, JobRow};
use crate::counterparts::Counterparts;
use crate::keyed::Record;
use crate::notice::Notice;
use crate::plan::Plan;
use crate::queue::group::GroupId;
use crate::rank::ClassId;
use crate::state::extras::Extras;
use crate::text::Text;
use crate::tries::Tries;

/// A job that has work left.
pub(crate) struct LiveJob {
    pub(super) row: JobRow,
    pub(crate) plan: Plan,
    /// Present while the job is not terminal.
    pub(super) class: Option<ClassId>,
    pub(super) executions: BTreeSet<ExecutionId>,
    pub(crate) extras: Extras,
}

/// A slot to place.
pub(crate) struct Slot {
    pub(crate) index: u32,
    pub(crate) evaluation: EvaluationId,
    pub(crate) tries: Tries,
    pub(crate) previous: Option<ExecutionId>,
}

// === impl LiveJob ===

impl LiveJob {
    /// A job of which nothing is placed and nothing waits yet.
    pub(crate) fn new(row: JobRow, plan: Plan, class: Option<ClassId>) -> Self {
        Self { row, plan, class, executions: BTreeSet::new(), extras: Extras::default() }
    }

    /// The job names these groups; the number is its own among all jobs of groups.
    pub(crate) fn name_groups(&mut self, groups: Arc<[GroupId]>, number: u64) {
        if !groups.is_empty() {
            self.extras.to_mut().groups = Some((groups, number));
        }
    }

    /// Limits the live executions of the job, 0 for no limit, and its failed slots, -1 for none.
    pub(crate) fn limit_to(&mut self, max_running: u32, max_failed: i32) {
        if max_running > 0 || max_failed != 0 {
            let extra = self.extras.to_mut();
            (extra.max_running, extra.max_failed) = (max_running, max_failed);
        }
    }

    /// Lets executions know this number of slots rather than that of the job's own; 0 for that.
    pub(crate) fn tell_count(&mut self, count: u32) {
        if count > 0 {
            self.extras.to_mut().told_count = count;
        }
    }

    /// The number of slots that executions are told.
    pub(crate) fn told_count(&self) -> u32 {
        match self.extras.told_count {
            0 => self.row.slots.len(),
            count => count,
        }
    }

    pub(crate) fn row(&self) -> &JobRow {
        &self.row
    }

    pub(crate) fn class(&self) -> Option<ClassId> {
        self.class
    }

    pub(crate) fn executions(&self) -> &BTreeSet<ExecutionId> {
        &self.executions
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.row.state.is_terminal()
    }

    /// Whether a slot that is ready to be placed waits in this class.
    pub(crate) fn has_ready_slot(&self, class: ClassId) -> bool {
        if self.is_terminal() || self.extras.fetch.holds() || self.is_at_limit() {
            return false;
        }
        if self.waits_for_others() {
            return false;
        }
        if self.class == Some(class) {
            return self.next_fresh().is_some() || !self.extras.ready.is_empty();
        }
        self.extras.secondary.get(&class).is_some_and(|slots| !slots.is_empty())
    }

    /// Whether as many executions of the job are live as it allows.
    pub(crate) fn is_at_limit(&self) -> bool {
        let live = u32::try_from(self.executions.len()).unwrap_or(u32::MAX);
        self.extras.max_running > 0 && live >= self.extras.max_running
    }

    /// Whether any slot could be placed if nothing held it back.
    pub(crate) fn has_slot_to_place(&self) -> bool {
        let extras = &self.extras;
        self.next_fresh().is_some()
            || !extras.ready.is_empty()
            || extras.pending.has_pinned()
            || extras.secondary.values().any(|slots| !slots.is_empty())
    }

    /// The classes in which slots of the job wait or may wait, those of tried slots first.
    pub(crate) fn classes(&self) -> Vec<ClassId> {
        self.extras.secondary.keys().copied().chain(self.class).collect()
    }

    /// Takes the next ready slot of the class; tried slots come first because they are older.
    pub(crate) fn take_ready_slot(
        &mut self,
        class: ClassId,
        changes: &mut Changes,
    ) -> Option<Slot> {
        if self.class != Some(class) {
            let index = self.extras.secondary.get(&class)?.first().copied()?;
            return self.take_pending(index, changes);
        }
        if let Some(index) = self.extras.ready.first().copied() {
            return self.take_pending(index, changes);
        }
        let index = self.next_fresh()?;
        match self.counterparts_mut() {
            Some(counterparts) => counterparts.take(index),
            None => self.row.fresh = index + 1,
        }
        changes.jobs.insert(self.row.id, self.row.clone());
        let tries = Tries { attempt: 1, ..Tries::default() };
        Some(Slot { index, evaluation: self.row.evaluation, tries, previous: None })
    }

    pub(crate) fn take_pending(&mut self, index: u32, changes: &mut Changes) -> Option<Slot> {
        let extra = self.extras.existing()?;
        let row = extra.pending.remove(index)?;
        extra.ready.remove(&index);
        for slots in extra.secondary.values_mut() {
            slots.remove(&index);
        }
        changes.pending_slots.insert((row.job, index), None);
        Some(Slot { index, evaluation: row.evaluation, tries: row.tries, previous: row.previous })
    }

    /// Whether any slot waits for the end of a delay.
    pub(crate) fn is_delayed(&self) -> bool {
        self.extras.fetch.holds() || self.extras.pending.has_delayed()
    }

    /// Whether a failure is being retried.
    pub(crate) fn is_retrying(&self) -> bool {
        self.is_delayed() || self.extras.secondary.values().any(|slots| !slots.is_empty())
    }

    /// The next slot that was never tried; slots of per-node jobs are always pinned and none of
    /// these.
    pub(crate) fn next_fresh(&self) -> Option<u32> {
        if self.extras.fetch.holds_untried() {
            return None;
        }
        match self.counterparts() {
            Some(counterparts) => counterparts.ready().first(),
            None => self.row.slots.at_or_above(self.row.fresh),
        }
    }

    fn counterparts_mut(&mut self) -> Option<&mut Counterparts> {
        self.extras.existing()?.conditions.as_mut()?.counterparts.as_mut()
    }

    /// Whether the job goes on with the slots that have failed so far.
    pub(crate) fn tolerates_failures(&self) -> bool {
        match u32::try_from(self.extras.max_failed) {
            Ok(most) => self.row.failed_slots <= most,
            Err(_) => true,
        }
    }

    /// Whether every slot has completed or failed.
    pub(crate) fn is_finished(&self) -> bool {
        let ended = self.row.completed.saturating_add(self.row.failed_slots);
        ended > 0 && ended == self.row.slots.len()
    }

    /// Slots that are neither placed nor ended, whatever they wait for.
    pub(crate) fn queued_slots(&self) -> u64 {
        match self.is_terminal() {
            true => 0,
            false => u64::from(self.untried_slots()) + self.extras.pending.len() as u64,
        }
    }

    /// Slots that were never tried.
    pub(crate) fn untried_slots(&self) -> u32 {
        let waiting = self.counterparts().map_or(0, Counterparts::waiting);
        self.fresh_slots().saturating_add(waiting)
    }

    /// Those of them that wait for no slot of another job.
    pub(crate) fn fresh_slots(&self) -> u32 {
        match self.counterparts() {
            Some(counterparts) => counterparts.ready().len(),
            None => self.row.slots.count_from(self.row.fresh),
        }
    }
}

// === impl LiveJob: what it says ===

impl LiveJob {
    /// The current notice: failures that are retried, silent nodes, runs that may fail again, and the
    /// first slot that failed.
    pub(crate) fn notice(&self) -> Notice {
        let retry = self.extras.retry.clone().filter(|_| self.is_retrying());
        let silence = self.extras.silent.values().next().map(|silent| silent.text.clone());
        let trial = self.extras.trial.clone().filter(|_| !self.extras.unproven.is_empty());
        Notice {
            retry: retry.unwrap_or(Text::Constant("")),
            silence: silence.unwrap_or(Text::Constant("")),
            trial: trial.unwrap_or(Text::Constant("")),
            failure: self.extras.first_failure.clone().unwrap_or(Text::Constant("")),
        }
    }

    /// An execution on a silent node has ended.
    pub(crate) fn silent_execution_ended(&mut self, node: NodeId) {
        let Some(extra) = self.extras.existing() else { return };
        if let Some(silent) = extra.silent.get_mut(&node) {
            silent.executions -= 1;
            if silent.executions == 0 {
                extra.silent.remove(&node);
            }
        }
    }
}

impl Record for LiveJob {
    type Id = JobId;

    fn id(&self) -> &JobId {
        &self.row.id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A class of sizes of the allocator; in the next one a million queued jobs take 64 MB more.
    const LIVE_JOB_BYTES: usize = 320;

    #[test]
    fn a_queued_job_is_small() {
        assert!(size_of::<LiveJob>() <= LIVE_JOB_BYTES, "{} bytes", size_of::<LiveJob>());
    }
}
