//! The results of a task: collected, and published where the job requests it.

pub(crate) mod collect;
pub(crate) mod publisher;
