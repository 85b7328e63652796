//! Bodies of submissions: from files, and from the arguments of `run`.

mod file;
mod publisher;
mod pack;
mod shorthand;
mod source;

pub(crate) use file::read;
pub(crate) use shorthand::shorthand;

/// Prefix of the `Meta` keys that the service sets, and about which it warns in submissions.
pub(crate) use source::check_size;
pub(crate) const SERVICE_META: &str = "service.org/";
