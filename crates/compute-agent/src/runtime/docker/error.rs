//! Classifies the Engine's errors for the execution.

use agent_core::execution::Failure;
use api_types::protocol::FailureCause;
use bollard::errors::Error;

use super::targets;
use crate::runtime::ExecutorError;

pub(super) fn unreachable(reason: String) -> ExecutorError {
    ExecutorError::Unreachable { engine: "docker", reason }
}

/// An error of a request that names nothing of a job: the Engine is unreachable, or has an internal
/// problem.
pub(super) fn of_engine(error: Error) -> ExecutorError {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            ExecutorError::Failed(Failure::node(said(status_code, &message)))
        }
        other => unreachable(chain(&other)),
    }
}

/// An error of a request about a task's container, image or path. Whatever its status code is, only
/// a twin tells whether the node is at fault.
pub(super) fn of_task(error: Error) -> ExecutorError {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            refused(said(status_code, &message), FailureCause::Node)
        }
        other => unreachable(chain(&other)),
    }
}

fn said(status_code: u16, message: &str) -> String {
    format!("docker answers {status_code}: {}", without_own_paths(message))
}

/// Without the node's path of what the agent keeps for an execution: `executions/…/inputs/0` becomes
/// `the execution's inputs/0`. Whoever reads it knows neither the node's directories nor its IDs.
fn without_own_paths(message: &str) -> String {
    const OWN: &str = "/executions/e-";
    let ends_path = |letter: char| letter.is_whitespace() || "'\",:;()".contains(letter);
    let mut rest = message;
    let mut text = String::with_capacity(message.len());
    while let Some(at) = rest.find(OWN) {
        let (before, own) = rest.split_at(at);
        let begin = before.rfind(ends_path).map_or(0, |last| {
            last + before.get(last..).and_then(|end| end.chars().next()).map_or(0, char::len_utf8)
        });
        text.push_str(before.get(..begin).unwrap_or_default());
        text.push_str("the execution's ");
        let (path, after) = own.split_at(own.find(ends_path).unwrap_or(own.len()));
        let within = path.strip_prefix(OWN).and_then(|path| path.split_once('/'));
        text.push_str(within.map_or("directory", |(_, within)| within));
        rest = after;
    }
    text.push_str(rest);
    text
}

fn refused(reason: String, formerly: FailureCause) -> ExecutorError {
    ExecutorError::Refused { reason, formerly }
}

pub(super) fn of_container(error: Error) -> ExecutorError {
    if is_not_found(&error) || is_removal(&error) { ExecutorError::Gone } else { of_task(error) }
}

/// What the Engine says of a container that it is removing.
fn is_removal(error: &Error) -> bool {
    matches!(error, Error::DockerResponseServerError { status_code: 409, message }
        if message.contains("marked for removal"))
}

pub(super) fn of_path(error: Error, path: &str) -> ExecutorError {
    if is_not_found(&error) {
        ExecutorError::NoSuchPath { path: path.to_owned() }
    } else {
        of_task(error)
    }
}

pub(super) fn of_create(error: Error, image: &str) -> ExecutorError {
    match error {
        // It existed a moment ago: it was removed since, or the Engine cannot use what it has of it.
        Error::DockerResponseServerError { status_code: 404, message } => {
            ExecutorError::NoSuchImage { image: image.to_owned(), reason: message }
        }
        Error::DockerResponseServerError { status_code: 400, message } => {
            refused(format!("docker cannot make the container: {message}"), FailureCause::Task)
        }
        other => of_task(other),
    }
}

pub(super) fn of_start(error: Error) -> ExecutorError {
    match error {
        error if targets::differ_in_kind(&error) => {
            refused(targets::kinds_differ(&error), FailureCause::Task)
        }
        // The command does not exist, or is not executable.
        Error::DockerResponseServerError { status_code: 400, message } => {
            refused(format!("docker cannot start the container: {message}"), FailureCause::Task)
        }
        Error::DockerResponseServerError { status_code: 404, .. } => ExecutorError::Gone,
        other => of_task(other),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_an_execution_is_told_without_the_node() {
        let id = "e-6ed848cc-971c-4c70-bb98-5f03337cc9a3";
        for (engine, shown) in [
            ("no such file: /task", "no such file: /task".to_owned()),
            (
                "cannot mount '/var/lib/a/executions/ID/inputs/0/file' to '/é'",
                "cannot mount 'the execution's inputs/0/file' to '/é'".to_owned(),
            ),
            ("/d/executions/ID: gone", "the execution's directory: gone".to_owned()),
            (
                "é/d/executions/ID/a and /d/executions/ID/b",
                "the execution's a and the execution's b".to_owned(),
            ),
        ] {
            assert_eq!(without_own_paths(&engine.replace("ID", id)), shown);
        }
    }
}
