//! The core of the agent: executions, their durable state, and their effects.

pub(crate) mod admission;
pub(crate) mod capacity;
pub(crate) mod effects;
pub(crate) mod ledger;
pub(crate) mod mailbox;
pub(crate) mod outbox;
pub(crate) mod probe;
pub(crate) mod reserve;
pub(crate) mod supervisor;
pub(crate) mod tasks;
pub(crate) mod usage;
pub(crate) mod vitals;
