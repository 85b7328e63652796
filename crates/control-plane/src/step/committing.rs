//! The phase of a commit: how it begins, is repeated, and ends.

use std::sync::Arc;

use scheduler::time::Moment;

use super::event::{Action, Delivery, Failure, Reason, Refused};
use super::{
    Attempt, Phase, Probe, REPEAT_EVERY, RETRY_EVERY, Serving, Step, UNKNOWN_FOR, Writing,
};
use crate::batch::{Content, NumberedCommit};
use crate::clock::Stamp;
use crate::store::{CommitId, Outcome, Removed, StoreError};

// === impl Step: commits ===

impl<C> Step<C> {
    pub(super) fn on_committed(
        &mut self,
        id: CommitId,
        result: Result<Outcome, StoreError>,
        now: Stamp,
    ) -> Vec<Action<C>> {
        match self.leave() {
            Phase::Committing { mut serving, writing } if writing.commit.id == id => {
                // Whatever came of it, no answer was read during that time.
                serving.scheduler.held_up(now.moment, now.moment.since(writing.since));
                match result {
                    Ok(outcome) => self.committed(serving, writing, outcome, now),
                    Err(error) => self.commit_failed(serving, writing, error, now.moment),
                }
            }
            Phase::Full { mut serving, probe: Probe::Renewing(probe, sent) } if probe == id => {
                match result {
                    Ok(_) => {
                        serving.last_commit = id.number;
                        self.gate.renewed(sent);
                        vec![self.send_probe(serving, now)]
                    }
                    Err(error) => self.probe_failed(serving, error, now.moment),
                }
            }
            Phase::Full { serving, probe: Probe::UnderWay(probe) } if probe == id => match result {
                Ok(_) => self.load(Reason::Writable, now.moment),
                Err(error) => self.probe_failed(serving, error, now.moment),
            },
            // The late answer to an attempt that was given up.
            phase @ (Phase::Loading(_)
            | Phase::Serving(_)
            | Phase::Committing { .. }
            | Phase::Full { .. }
            | Phase::SteppingDown) => {
                self.phase = phase;
                Vec::new()
            }
        }
    }

    /// Full => Full: whether there is room again.
    pub(super) fn probe(&mut self, serving: Box<Serving>, now: Stamp) -> Action<C> {
        match self.gate.renewal_due() {
            None => self.send_probe(serving, now),
            Some(_) => {
                let commit = serving.next_commit(Content::Batch(Arc::default()), now);
                let probe = Probe::Renewing(commit.id, now.moment);
                self.phase = Phase::Full { serving, probe };
                Action::Commit(commit)
            }
        }
    }

    fn send_probe(&mut self, serving: Box<Serving>, now: Stamp) -> Action<C> {
        let commit = serving.next_commit(Content::Probe, now);
        self.phase = Phase::Full { serving, probe: Probe::UnderWay(commit.id) };
        Action::Commit(commit)
    }

    /// Full => Full, Loading or SteppingDown.
    fn probe_failed(
        &mut self,
        serving: Box<Serving>,
        error: StoreError,
        now: Moment,
    ) -> Vec<Action<C>> {
        match error {
            StoreError::Full { .. } | StoreError::Unavailable => {
                let probe = Probe::DueAt(now + RETRY_EVERY);
                self.phase = Phase::Full { serving, probe };
                Vec::new()
            }
            StoreError::Fenced => self.fenced(now),
            error => vec![Action::StepDown(Failure::Commit(error))],
        }
    }

    /// Another term began: => Loading, or => SteppingDown where it may be that of another process.
    fn fenced(&mut self, now: Moment) -> Vec<Action<C>> {
        match self.can_lose_the_lead() {
            false => self.load(Reason::Fenced, now),
            true => vec![Action::CloseStreams, Action::StepDown(Failure::LeadLost)],
        }
    }

    /// Serving, or Serving => Committing if something is due for removal.
    pub(super) fn remove(&mut self, serving: Box<Serving>, now: Stamp) -> Option<Action<C>> {
        match self.pruning.next(now.moment) {
            Some(removal) => Some(self.commit(serving, Content::Removal(removal), Vec::new(), now)),
            None => {
                self.phase = Phase::Serving(serving);
                None
            }
        }
    }

    /// Serving => Committing.
    pub(super) fn commit(
        &mut self,
        serving: Box<Serving>,
        content: Content,
        held: Vec<Delivery<C>>,
        now: Stamp,
    ) -> Action<C> {
        let commit = serving.next_commit(content, now);
        let writing =
            Writing { commit: commit.clone(), held, since: now.moment, attempt: Attempt::First };
        self.phase = Phase::Committing { serving, writing };
        Action::Commit(commit)
    }

    /// Committing => Committing, or => Loading when callers have waited long enough.
    pub(super) fn repeat(
        &mut self,
        serving: Box<Serving>,
        mut writing: Writing<C>,
        now: Moment,
    ) -> Vec<Action<C>> {
        let mut actions = Vec::new();
        match writing.attempt {
            Attempt::RepeatAt(_) if now >= writing.since + UNKNOWN_FOR => {
                actions.push(refuse(writing.held, Refused::OutcomeUnknown));
                actions.extend(self.load(Reason::Unknown, now));
                return actions;
            }
            Attempt::RepeatAt(at) if at <= now => {
                writing.attempt = Attempt::Repeat;
                actions.push(Action::Commit(writing.commit.clone()));
            }
            Attempt::First | Attempt::Repeat | Attempt::RepeatAt(_) => {}
        }
        self.phase = Phase::Committing { serving, writing };
        actions
    }

    /// Committing => Serving.
    fn committed(
        &mut self,
        mut serving: Box<Serving>,
        writing: Writing<C>,
        outcome: Outcome,
        now: Stamp,
    ) -> Vec<Action<C>> {
        let Writing { commit, held, since, attempt: _ } = writing;
        let removed = match outcome {
            Outcome::Written(removed) => removed,
            // What the first attempt removed is unknown; the next one finds the rest.
            Outcome::Repeated => Removed { count: 0, more: true },
            Outcome::Idle => Removed::default(),
        };
        match outcome {
            Outcome::Written(_) | Outcome::Repeated => {
                serving.last_commit = commit.id.number;
                self.gate.renewed(since);
            }
            Outcome::Idle => {}
        }
        match commit.content {
            Content::Batch(batch) => {
                self.pruning.stored_keys(batch.keys.len());
                self.pruning.stored_rows(batch.job_rows());
                self.serve(serving, batch, held, now)
            }
            Content::Removal(removal) => {
                self.pruning.removed(removal, removed, since, now.moment);
                self.remove(serving, now).into_iter().collect()
            }
            Content::Probe => {
                self.phase = Phase::Serving(serving);
                Vec::new()
            }
        }
    }

    /// Committing => Full, Loading or SteppingDown, or waits for the repeat.
    fn commit_failed(
        &mut self,
        serving: Box<Serving>,
        mut writing: Writing<C>,
        error: StoreError,
        now: Moment,
    ) -> Vec<Action<C>> {
        let why = match writing.attempt {
            Attempt::First => Refused::NotStored,
            Attempt::Repeat | Attempt::RepeatAt(_) => Refused::OutcomeUnknown,
        };
        match error {
            StoreError::Full { .. } => match (&writing.commit.content, writing.attempt) {
                (Content::Batch(_) | Content::Probe, _) => {
                    let probe = Probe::DueAt(now + RETRY_EVERY);
                    self.phase = Phase::Full { serving, probe };
                    vec![Action::CloseStreams, refuse(writing.held, why)]
                }
                // The next batch finds the disk full too, if it still is.
                (Content::Removal(_), Attempt::First) => {
                    self.phase = Phase::Serving(serving);
                    Vec::new()
                }
                // The first attempt may yet be written, and would pass the next batch, which would
                // have its number, for a repeat.
                (Content::Removal(_), Attempt::Repeat | Attempt::RepeatAt(_)) => {
                    self.load(Reason::Unknown, now)
                }
            },
            StoreError::Unavailable => {
                writing.attempt = Attempt::RepeatAt(now + REPEAT_EVERY);
                self.phase = Phase::Committing { serving, writing };
                Vec::new()
            }
            StoreError::Fenced => {
                let mut actions = vec![refuse(writing.held, why)];
                actions.extend(self.fenced(now));
                actions
            }
            // What failed may be the last step of a commit that a restart finds in the log.
            error => vec![
                refuse(writing.held, Refused::OutcomeUnknown),
                Action::StepDown(Failure::Commit(error)),
            ],
        }
    }
}

fn refuse<C>(held: Vec<Delivery<C>>, why: Refused) -> Action<C> {
    let callers = held.into_iter().filter_map(|held| match held {
        Delivery::Effect(_) => None,
        Delivery::Reply(caller, _) => Some(caller),
    });
    Action::Refuse { callers: callers.collect(), why }
}

// === impl Serving ===

impl Serving {
    pub(super) fn next_commit(&self, content: Content, stamp: Stamp) -> NumberedCommit {
        let id = CommitId { term: self.term, number: self.last_commit + 1 };
        NumberedCommit { id, stamp, content }
    }
}
