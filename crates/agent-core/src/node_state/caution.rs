//! How an agent goes on after its predecessors ended without a stop.
//!
//! An execution can end its agent: a result that takes all memory while it is read, say. Its step
//! is in the ledger, so the next agent would begin it again, and end again. After the second end
//! within ten minutes an agent therefore begins the steps that it finds one execution at a time,
//! and notes which one. If it ends again, the execution that was alone is given up.
//!
//! An agent that is killed for other reasons loses at most the one execution that happens to be
//! alone, and that one is tried elsewhere. Rejected: giving up everything that was in progress at
//! several ends, which fails innocent work whenever an agent is killed a few times.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use api_types::{ExecutionId, Timestamp};

use crate::execution::{Effect, Phase};
use crate::ledger::Ends;

/// Ends without a stop that are further back do not count.
const WINDOW: Duration = Duration::from_secs(10 * 60);

/// This many ends make the next agent cautious.
const MANY: usize = 2;

/// How long an execution whose process runs stays alone after it is watched again. It doubles with
/// each further end, for an execution that ends its agent some time later.
const SETTLING: Duration = Duration::from_secs(1);

/// After this time a step has not ended the agent by itself, such as the pull of a large image;
/// the others go on.
const LONGEST_ALONE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Caution {
    ends: Ends,
    is_changed: bool,
    mode: Mode,
}

#[derive(Default)]
enum Mode {
    #[default]
    Ordinary,
    /// Steps begin one execution at a time; `Ends::alone` is whose.
    OneByOne {
        /// The others, with the effects that wait for their turn.
        waiting: VecDeque<(ExecutionId, Vec<Effect>)>,
        /// Since when one is alone.
        since: Timestamp,
        /// Since when its process is only watched.
        watched_since: Option<Timestamp>,
    },
}

/// Whether steps of an execution are under way.
enum Rest {
    None,
    /// Only its process is watched.
    Watched,
    Complete,
}

// === impl Caution ===

impl Caution {
    pub(super) fn new(ends: Ends) -> Self {
        Self { ends, is_changed: false, mode: Mode::Ordinary }
    }

    /// An agent starts. Returns the execution to give up, and how many ends there were.
    pub(super) fn open(&mut self, now: Timestamp) -> Option<(ExecutionId, usize)> {
        let ends = &mut self.ends;
        ends.unstopped.retain(|at| now.since(*at) < WINDOW);
        let alone = ends.alone.take();
        let was_open = core::mem::replace(&mut ends.is_open, true);
        if was_open {
            ends.unstopped.push(now);
        }
        if ends.unstopped.len() >= MANY {
            self.mode =
                Mode::OneByOne { waiting: VecDeque::new(), since: now, watched_since: None };
        }
        self.is_changed = true;
        alone.filter(|_| was_open).map(|id| (id, self.ends.unstopped.len()))
    }

    /// The agent stops; how it ended before does not matter any more.
    pub(super) fn close(&mut self) {
        *self = Self { is_changed: true, ..Self::default() };
    }

    /// Whether the ledger must know of each step before it begins.
    pub(super) fn is_alert(&self, now: Timestamp) -> bool {
        self.ends.unstopped.last().is_some_and(|at| now.since(*at) < WINDOW)
    }

    pub(super) fn is_one_by_one(&self) -> bool {
        matches!(self.mode, Mode::OneByOne { .. })
    }

    /// The effect, unless it waits for its turn.
    pub(super) fn release(&mut self, id: ExecutionId, effect: Effect) -> Option<Effect> {
        let Mode::OneByOne { waiting, watched_since, .. } = &mut self.mode else {
            return Some(effect);
        };
        if self.ends.alone == Some(id) {
            *watched_since = None;
            return Some(effect);
        }
        match waiting.iter_mut().find(|(other, _)| *other == id) {
            Some((_, effects)) => effects.push(effect),
            // It is about a step that goes on.
            None if effect == Effect::Cancel => return Some(effect),
            None => waiting.push_back((id, vec![effect])),
        }
        None
    }

    /// Goes on to the next execution once the one that is alone has settled; returns the effects of
    /// the next. `phase` is that of an execution, none of a forgotten one.
    pub(super) fn proceed<'a>(
        &mut self,
        now: Timestamp,
        phase: impl FnOnce(ExecutionId) -> Option<&'a Phase>,
    ) -> Option<(ExecutionId, Vec<Effect>)> {
        let settling = self.settling();
        let Mode::OneByOne { waiting, since, watched_since } = &mut self.mode else { return None };
        if let Some(id) = self.ends.alone {
            let has_settled = match phase(id).map_or(Rest::Complete, rest) {
                Rest::Complete => true,
                Rest::Watched => now.since(*watched_since.get_or_insert(now)) >= settling,
                Rest::None => false,
            };
            if !has_settled && now.since(*since) < LONGEST_ALONE {
                return None;
            }
        }
        let next = waiting.pop_front();
        self.ends.alone = next.as_ref().map(|(id, _)| *id);
        self.is_changed = true;
        match next {
            Some(next) => {
                (*since, *watched_since) = (now, None);
                Some(next)
            }
            None => {
                self.mode = Mode::Ordinary;
                None
            }
        }
    }

    /// The record, if the ledger has another one.
    pub(super) fn take_record(&mut self) -> Option<Ends> {
        core::mem::take(&mut self.is_changed).then(|| self.ends.clone())
    }

    fn settling(&self) -> Duration {
        let further = self.ends.unstopped.len().saturating_sub(MANY);
        let factor = 1_u32.checked_shl(u32::try_from(further).unwrap_or(u32::MAX));
        SETTLING.saturating_mul(factor.unwrap_or(u32::MAX)).min(LONGEST_ALONE)
    }
}

fn rest(phase: &Phase) -> Rest {
    match phase {
        Phase::Accepted | Phase::Done { .. } => Rest::Complete,
        Phase::Running { .. } | Phase::Stopping { .. } => Rest::Watched,
        Phase::Preparing
        | Phase::Withdrawing { .. }
        | Phase::Starting { .. }
        | Phase::Overtaken { .. }
        | Phase::Collecting { .. } => Rest::None,
    }
}

/// In which order executions have their turn: first those whose processes are not watched.
pub(super) fn rank(phase: &Phase) -> u8 {
    match phase {
        Phase::Running { .. } | Phase::Stopping { .. } => 0,
        Phase::Collecting { .. } => 1,
        Phase::Starting { .. } | Phase::Overtaken { .. } => 2,
        Phase::Preparing | Phase::Withdrawing { .. } => 3,
        Phase::Accepted | Phase::Done { .. } => 4,
    }
}

#[cfg(test)]
mod tests;
