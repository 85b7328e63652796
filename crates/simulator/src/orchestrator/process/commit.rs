//! The commits of a process, and the terms that it begins.

use api_types::Timestamp;
use control_plane::batch::{Content, NumberedCommit};
use control_plane::clock::Stamp;
use control_plane::step::{Event, TakeError, TermState};
use control_plane::store::{Outcome, StoreError};
use scheduler::mint::Mint;

use super::{After, Plan, Process, Surroundings};
use crate::orchestrator::outgoing::Outgoing;
use crate::orchestrator::sabotage::sabotaged_settings;
use crate::random::Random;
use crate::summary::Sabotage;

/// How long a slow commit takes, in milliseconds.
const SLOW_COMMIT: std::ops::Range<u64> = 500..40_000;

/// The same of a shared store, which gives an attempt up after a second.
const SLOW_SHARED_COMMIT: std::ops::Range<u64> = 500..1_000;

/// A commit that takes a while. Until it ends, only heartbeats are answered.
pub(super) struct SlowCommit {
    commit: NumberedCommit,
    began: Stamp,
    pub(super) until: Timestamp,
}

// === impl Process: commits ===

impl Process {
    pub(super) fn end_slow_commit(
        &mut self,
        slow: SlowCommit,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        plan: &mut Plan<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> Option<After> {
        let SlowCommit { commit, began, .. } = slow;
        let stamp = if around.sabotage == Some(Sabotage::OverlookDelays) { began } else { stamp };
        let result = match self.cut_off_until > around.now {
            true => Err(StoreError::Unavailable),
            false => around.disk.commit(&commit, around.now),
        };
        self.on(Event::Committed(commit.id, result), stamp, around, plan, outgoing)
    }

    pub(super) fn begin_slow_commit(
        &mut self,
        commit: NumberedCommit,
        began: Stamp,
        around: &mut Surroundings<'_>,
        random: &mut Random,
    ) {
        self.show_witness(&commit, around);
        *around.slow_commits += 1;
        let until = around.now
            + random.millis(match self.step.trusted_until() {
                None => SLOW_COMMIT,
                Some(_) => SLOW_SHARED_COMMIT,
            });
        self.slow = Some(SlowCommit { commit, began, until });
    }

    /// Sabotage: what waits for an empty commit leaves without it, as long as trust lasts.
    fn is_skipped(&self, commit: &NumberedCommit, sabotage: Option<Sabotage>) -> bool {
        let Content::Batch(batch) = &commit.content else { return false };
        let is_renewal = self.step.renewal_due().is_none_or(|due| due <= commit.stamp.moment);
        let is_proof = batch.is_empty() && !is_renewal;
        sabotage == Some(Sabotage::SkipProofs) && is_proof
    }

    fn show_witness(&self, commit: &NumberedCommit, around: &mut Surroundings<'_>) {
        if let (Some(witness), Some(scheduler)) = (&mut around.witness, self.step.scheduler()) {
            witness.commits(commit, around.disk, scheduler.lease());
        }
    }

    /// What is sent to the store may be written, lost, or written later, without an answer.
    pub(super) fn commit(
        &mut self,
        commit: NumberedCommit,
        around: &mut Surroundings<'_>,
        plan: &mut Plan<'_>,
        outgoing: &mut Vec<Outgoing>,
    ) -> Result<Outcome, StoreError> {
        if self.is_skipped(&commit, around.sabotage) {
            return Ok(Outcome::Idle);
        }
        self.show_witness(&commit, around);
        if self.cut_off_until > around.now {
            return Err(StoreError::Unavailable);
        }
        if !plan.random.chance(plan.unknown) {
            return around.disk.commit(&commit, around.now);
        }
        match plan.random.within(0..3) {
            0 => around.disk.commit_unseen(&commit, around.now),
            1 => outgoing.push(Outgoing::Late(commit)),
            _ => {}
        }
        Err(StoreError::Unavailable)
    }

    pub(super) fn take(
        &mut self,
        stamp: Stamp,
        around: &mut Surroundings<'_>,
        random: &mut Random,
    ) -> Result<TermState, TakeError> {
        self.leases.clear();
        if let Some(witness) = &mut around.witness {
            witness.state_is_loaded();
        }
        if self.cut_off_until > around.now {
            return Err(StoreError::Unavailable.into());
        }
        let progress = around.disk.take(Some(self.term), around.now)?;
        self.term = progress.term;
        let mint = Mint::from_seed(random.seed());
        let settings = sabotaged_settings(self.settings, around.sabotage);
        around
            .disk
            .read(|store| TermState::load(store, progress, settings, mint, || stamp.moment, &|| {}))
    }
}
