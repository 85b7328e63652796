//! Classifies the Engine's errors for the execution.

use agent_core::execution::Failure;
use bollard::errors::Error;

use crate::runtime::ExecutorError;

pub(super) fn unreachable(reason: String) -> ExecutorError {
    ExecutorError::Unreachable { engine: "docker", reason }
}

/// An error that says nothing about the task: the Engine is unreachable, or has an internal
/// problem.
pub(super) fn of_engine(error: Error) -> ExecutorError {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            ExecutorError::Failed(Failure::node(format!("docker answers {status_code}: {message}")))
        }
        other => unreachable(chain(&other)),
    }
}

pub(super) fn of_container(error: Error) -> ExecutorError {
    if is_not_found(&error) { ExecutorError::Gone } else { of_engine(error) }
}

pub(super) fn of_path(error: Error, path: &str) -> ExecutorError {
    if is_not_found(&error) {
        ExecutorError::NoSuchPath { path: path.to_owned() }
    } else {
        of_engine(error)
    }
}

pub(super) fn of_create(error: Error, image: &str) -> ExecutorError {
    match error {
        // It existed a moment ago: someone has removed it since.
        Error::DockerResponseServerError { status_code: 404, message } => {
            ExecutorError::NoSuchImage { image: image.to_owned(), reason: message }
        }
        // Another node would respond the same.
        Error::DockerResponseServerError { status_code: 400, message } => ExecutorError::Failed(
            Failure::task(format!("docker cannot make the container: {message}")),
        ),
        other => of_engine(other),
    }
}

/// What the Engine says when a file is to be mounted where the image has a directory, or the other
/// way round.
const OTHER_KIND: &str = "mount a directory onto a file";

pub(super) fn of_start(error: Error) -> ExecutorError {
    match error {
        Error::DockerResponseServerError { message, .. } if message.contains(OTHER_KIND) => {
            ExecutorError::Failed(Failure::task(format!(
                "the Target of an input that is a file is a directory of the image, or the other \
                 way round; a Target that ends with '/' is a directory, and the file is in it \
                 under its name: {message}"
            )))
        }
        // The command does not exist, or is not executable: another node would respond the same.
        Error::DockerResponseServerError { status_code: 400, message } => ExecutorError::Failed(
            Failure::task(format!("docker cannot start the container: {message}")),
        ),
        Error::DockerResponseServerError { status_code: 404, .. } => ExecutorError::Gone,
        other => of_engine(other),
    }
}

pub(super) fn is_not_found(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 404, .. })
}

pub(super) fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 409, .. })
}

/// The error with all its causes in one line: the last one names the problem.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
