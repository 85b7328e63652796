//! Reads of the state: they change nothing.

pub(crate) mod assignments;
pub(crate) mod census;
pub(crate) mod demand;
pub(crate) mod dry_run;
pub(crate) mod explain;
pub(crate) mod group;
pub(crate) mod node;
pub(crate) mod reasons;
pub(crate) mod standing;
