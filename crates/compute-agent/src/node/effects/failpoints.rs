//! The failpoints of the effects: the response that a failing engine would have given.

use agent_core::execution::Failure;
use failpoint::StepFailpoints;

use crate::data::results::collect::intake::CollectError;
use crate::runtime::ExecutorError;

pub(super) const CREATE: StepFailpoints<ExecutorError> = points("docker.create", "docker.created");
pub(super) const START: StepFailpoints<ExecutorError> = points("docker.start", "docker.started");
pub(super) const WAIT: StepFailpoints<ExecutorError> = points("docker.wait", "docker.waited");
pub(super) const STOP: StepFailpoints<ExecutorError> = points("docker.stop", "docker.stopped");
pub(super) const REMOVE: StepFailpoints<ExecutorError> = points("docker.remove", "docker.removed");
pub(super) const COLLECT: StepFailpoints<CollectError> = StepFailpoints {
    before: "collect.before",
    after: "collect.after",
    refused: || refused().into(),
    lost: || lost().into(),
};

const fn points(before: &'static str, after: &'static str) -> StepFailpoints<ExecutorError> {
    StepFailpoints { before, after, refused, lost }
}

fn refused() -> ExecutorError {
    ExecutorError::Failed(Failure::node("docker answers 500: failpoint"))
}

fn lost() -> ExecutorError {
    ExecutorError::Unreachable { engine: "docker", reason: "failpoint".to_owned() }
}
