//! Rules: what an event changes, and what it marks.
//!
//! One file per subject. A rule is a function of the [state](crate::state); it places nothing, since that
//! takes a [`Settle`](crate::settle::leftover::Settle), which no rule has.

pub(crate) mod counterpart;
pub(crate) mod covers;
pub(crate) mod dependency;
pub(crate) mod ending;
pub(crate) mod exclusion;
pub(crate) mod execution;
pub(crate) mod fetch;
pub(crate) mod giving_up;
pub(crate) mod graph;
pub(crate) mod group;
pub(crate) mod health;
pub(crate) mod job_end;
pub(crate) mod lease;
pub(crate) mod mass_silence;
pub(crate) mod node_name;
pub(crate) mod offer;
pub(crate) mod operators;
pub(crate) mod outcome;
pub(crate) mod patience;
pub(crate) mod quota;
pub(crate) mod refusal;
pub(crate) mod removal;
pub(crate) mod rerun;
pub(crate) mod retry;
pub(crate) mod second_agent;
pub(crate) mod session;
pub(crate) mod silence;
pub(crate) mod stopping;
pub(crate) mod submission;
