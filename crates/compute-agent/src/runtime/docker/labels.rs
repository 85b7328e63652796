//! The labels of containers, networks and volumes.

/// The execution that a container belongs to.
pub(crate) const LABEL_EXECUTION: &str = "service.org/execution";
/// The job of that execution.
pub(crate) const LABEL_JOB: &str = "service.org/job";
/// The result directories created in the container, as a JSON array, for recreating it.
pub(crate) const LABEL_RESULTS: &str = "service.org/result-directories";
/// The network of the task, where it has one, for recreating its container.
pub(crate) const LABEL_NETWORK: &str = "service.org/network";
/// The node whose agent created the container.
pub(crate) const LABEL_NODE: &str = "service.org/node";
