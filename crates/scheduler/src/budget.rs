//! What one turn may do, so that no input holds the driver for long.

use api_types::ExecutionId;

/// Executions and jobs that one turn ends, places or annotates: some milliseconds of work.
const PER_TURN: u32 = 512;

/// What a turn may still do.
#[derive(Debug)]
pub(crate) struct Budget(u32);

/// How far a walk over a job's executions came.
pub(crate) enum Walk {
    Done,
    /// The budget ended after this one; none if it ended before the first.
    Left {
        after: Option<ExecutionId>,
    },
}

// === impl Budget ===

impl Budget {
    pub(crate) fn of_a_turn() -> Self {
        Self(PER_TURN)
    }

    pub(crate) fn spend(&mut self) {
        self.0 = self.0.saturating_sub(1);
    }

    pub(crate) fn spend_many(&mut self, steps: usize) {
        self.0 = self.0.saturating_sub(u32::try_from(steps).unwrap_or(u32::MAX));
    }

    /// What a walk that frees room leaves of it: the freed room is filled in the same turn.
    pub(crate) fn half(&self) -> u32 {
        self.0 / 2
    }

    pub(crate) fn is_down_to(&self, left: u32) -> bool {
        self.0 <= left
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.0 == 0
    }
}
