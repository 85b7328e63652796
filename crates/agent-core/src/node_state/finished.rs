//! The finished executions that the node still knows, and how long it does.

use alloc::collections::BTreeSet;
use core::time::Duration;

use api_types::{ExecutionId, Timestamp};

use super::slot::Slot;
use crate::execution::Phase;

/// Finished executions that the node remembers with their directories; beyond this number the node
/// forgets the oldest one early.
const MAX_FINISHED: usize = 1000;

/// The same for those whose results could not be published: the node alone has their results, so
/// that it keeps as many as it has memory for.
const MAX_UNPUBLISHED: usize = 10_000;

/// Done, with every report acknowledged; ordered by the time of their end.
type ByEnd = BTreeSet<(Timestamp, ExecutionId)>;

#[derive(Default)]
pub(super) struct Finished {
    plain: ByEnd,
    unpublished: ByEnd,
}

// === impl Finished ===

impl Finished {
    /// Enters the execution if it is finished.
    pub(super) fn enter(&mut self, slot: &mut Slot) {
        if let Some(key) = slot.finish() {
            self.of(slot).insert(key);
        }
    }

    /// It has something to report again.
    pub(super) fn leave(&mut self, slot: &Slot) {
        self.of(slot).remove(&slot.finished_key());
    }

    /// Takes out one that exceeds the retention time or the number.
    pub(super) fn take_expired(&mut self, now: Timestamp, retain: Duration) -> Option<ExecutionId> {
        let bounds = [(&mut self.plain, MAX_FINISHED), (&mut self.unpublished, MAX_UNPUBLISHED)];
        bounds.into_iter().find_map(|(finished, most)| {
            let (finished_at, _) = finished.first()?;
            let expired = finished.len() > most || now.since(*finished_at) >= retain;
            expired.then(|| finished.pop_first()).flatten().map(|(_, id)| id)
        })
    }

    fn of(&mut self, slot: &Slot) -> &mut ByEnd {
        match slot.execution.phase {
            Phase::Done { unpublished: true, .. } => &mut self.unpublished,
            Phase::Accepted
            | Phase::Preparing
            | Phase::Withdrawing { .. }
            | Phase::Starting { .. }
            | Phase::Overtaken { .. }
            | Phase::Running { .. }
            | Phase::Stopping { .. }
            | Phase::Collecting { .. }
            | Phase::Done { unpublished: false, .. } => &mut self.plain,
        }
    }
}
