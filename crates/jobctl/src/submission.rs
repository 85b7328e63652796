//! Bodies of submissions: from files, from the arguments of `run`, and the example of `init`.

mod after;
mod example;
mod file;
mod pack;
mod publisher;
mod shorthand;
mod source;

pub(crate) use after::after;
pub(crate) use example::example;
pub(crate) use file::{read, read_graph, read_patch};
pub(crate) use shorthand::shorthand;
pub(crate) use source::check_size;

/// Prefix of the `Meta` keys that the service sets, and about which it warns in submissions.
pub(crate) const SERVICE_META: &str = "service.org/";
