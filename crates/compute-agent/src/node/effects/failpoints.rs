//! The failpoints of the effects: the response that a failing engine would have given.

use agent_core::execution::Failure;
use failpoint::Places;

use crate::data::results::collect::intake::CollectError;
use crate::runtime::ExecutorError;

pub(super) const CREATE: Places<ExecutorError> = points("docker.create", "docker.created");
pub(super) const START: Places<ExecutorError> = points("docker.start", "docker.started");
pub(super) const WAIT: Places<ExecutorError> = points("docker.wait", "docker.waited");
pub(super) const STOP: Places<ExecutorError> = points("docker.stop", "docker.stopped");
pub(super) const REMOVE: Places<ExecutorError> = points("docker.remove", "docker.removed");
pub(super) const COLLECT: Places<CollectError> = Places {
    before: "collect.before",
    after: "collect.after",
    refused: || refused().into(),
    lost: || lost().into(),
};

const fn points(before: &'static str, after: &'static str) -> Places<ExecutorError> {
    Places { before, after, refused, lost }
}

fn refused() -> ExecutorError {
    ExecutorError::Failed(Failure::node("docker answers 500: failpoint"))
}

fn lost() -> ExecutorError {
    ExecutorError::Unreachable { engine: "docker", reason: "failpoint".to_owned() }
}
