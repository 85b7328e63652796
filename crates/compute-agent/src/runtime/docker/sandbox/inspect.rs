//! The protocol with the program inside a sandbox.

use std::time::Duration;

use bollard::query_parameters::AttachContainerOptions;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;

use super::super::engine::Engine;
use super::pool::Inspection;
use crate::host::mint;

/// The program reads a few small files; after a longer silence it counts as broken.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

const ENDED: &str = "the sandbox is no longer running";

/// What an answer begins with when a namespace is not restricted.
const FAILED: &str = "failed ";

/// Whether a sandbox is empty. One that does not respond must not be reused.
pub(super) async fn inspect(docker: &Engine, sandbox: &str) -> Inspection {
    let asking = tokio::time::timeout(ANSWER_TIMEOUT, ask(docker, sandbox, "inspect"));
    match asking.await {
        Ok(Ok(Some(answer))) => found(&answer),
        Ok(Ok(None)) => Inspection::Spoilt(ENDED.to_owned()),
        Ok(Err(error)) => Inspection::Spoilt(super::super::error::chain(&error)),
        Err(_) => Inspection::Spoilt(format!("no answer in {ANSWER_TIMEOUT:?}")),
    }
}

/// Notifies a sandbox that it is leased; or why it cannot be.
pub(super) async fn hold(docker: &Engine, sandbox: &str) -> Result<(), String> {
    let asking = tokio::time::timeout(ANSWER_TIMEOUT, ask(docker, sandbox, "hold"));
    match asking.await {
        Ok(Ok(Some(answer))) if answer == "held" => Ok(()),
        Ok(Ok(Some(answer))) => Err(answer.trim_start_matches(FAILED).to_owned()),
        Ok(Ok(None)) => Err(ENDED.to_owned()),
        Ok(Err(error)) => Err(super::super::error::chain(&error)),
        Err(_) => Err(format!("no answer in {ANSWER_TIMEOUT:?}")),
    }
}

/// None when it ends without a response.
async fn ask(
    docker: &Engine,
    sandbox: &str,
    word: &str,
) -> Result<Option<String>, bollard::errors::Error> {
    let options =
        AttachContainerOptions { stream: true, stdin: true, stdout: true, ..Default::default() };
    let mut attached = docker.attach_container(sandbox, Some(options)).await?;
    // A late response to a request of a crashed agent must not pass for this one.
    let token = mint::request_id();
    attached.input.write_all(format!("{word} {token}\n").as_bytes()).await?;
    attached.input.flush().await?;
    while let Some(output) = attached.output.next().await {
        let text = String::from_utf8_lossy(&output?.into_bytes()).into_owned();
        if let Some(answer) = text.trim_end().strip_prefix(&token) {
            return Ok(Some(answer.trim_start().to_owned()));
        }
    }
    Ok(None)
}

fn found(answer: &str) -> Inspection {
    match answer.split_once(' ') {
        None if answer == "clean" => Inspection::Clean,
        Some(("busy", table)) => Inspection::Busy(table.to_owned()),
        Some(("dirty", what)) => Inspection::Spoilt(format!("its last task changed {what}")),
        _ => Inspection::Spoilt(format!("it returned '{answer}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_response_allows_the_reuse_of_a_sandbox() {
        assert_eq!(found("clean"), Inspection::Clean);
        assert_eq!(found("busy tcp"), Inspection::Busy("tcp".to_owned()));
        // The program of an earlier release says that it served a task.
        for answer in
            ["used", "dirty /etc/hosts", "dirty routes", "failed for a reason", "clean or so", ""]
        {
            assert!(matches!(found(answer), Inspection::Spoilt(_)), "{answer}");
        }
    }
}
