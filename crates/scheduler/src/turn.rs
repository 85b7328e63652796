//! The handling of one input, and what it brings about.

use alloc::vec::Vec;

use api_types::Timestamp;

use crate::budget::Budget;
use crate::change::{Changes, Effect, Fact};
use crate::time::Moment;

/// The changes and effects of one or several inputs.
#[derive(Debug, Default)]
pub struct Output {
    pub changes: Changes,
    pub effects: Vec<Effect>,
    pub facts: Vec<Fact>,
}

/// The handling of one input: one event, or several reports, timers or parts of the backlog.
pub(crate) struct Turn<'a> {
    pub(crate) now: Moment,
    /// For display only: an event shows the later of this and the job's last event.
    pub(crate) wall: Timestamp,
    pub(crate) out: &'a mut Output,
    /// What it may still do.
    pub(crate) budget: Budget,
}
