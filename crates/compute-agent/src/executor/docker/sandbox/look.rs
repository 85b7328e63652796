//! Asking the program inside a sandbox whether it is empty.

use std::time::Duration;

use bollard::Docker;
use bollard::query_parameters::AttachContainerOptions;
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;

use super::pool::Found;
use crate::mint;

/// It reads a few small files; one that says nothing for this long is broken.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks into a sandbox. One that cannot answer is not to be handed on.
pub(super) async fn into_sandbox(docker: &Docker, sandbox: &str) -> Found {
    let asking = tokio::time::timeout(PATIENCE, ask(docker, sandbox));
    match asking.await {
        Ok(Ok(Some(found))) => found,
        Ok(Ok(None)) => Found::Spoilt("it does not run any more".to_owned()),
        Ok(Err(error)) => Found::Spoilt(super::super::error::chain(&error)),
        Err(_) => Found::Spoilt(format!("no answer in {PATIENCE:?}")),
    }
}

/// None when it ends without an answer.
async fn ask(docker: &Docker, sandbox: &str) -> Result<Option<Found>, bollard::errors::Error> {
    let options =
        AttachContainerOptions { stream: true, stdin: true, stdout: true, ..Default::default() };
    let mut attached = docker.attach_container(sandbox, Some(options)).await?;
    // The answer to an earlier question, of an agent that died, must not pass for this one.
    let token = mint::request_id();
    attached.input.write_all(format!("look {token}\n").as_bytes()).await?;
    attached.input.flush().await?;
    while let Some(output) = attached.output.next().await {
        let text = String::from_utf8_lossy(&output?.into_bytes()).into_owned();
        if let Some(answer) = text.trim_end().strip_prefix(&token) {
            return Ok(Some(found(answer.trim_start())));
        }
    }
    Ok(None)
}

fn found(answer: &str) -> Found {
    match answer.split_once(' ') {
        None if answer == "clean" => Found::Clean,
        Some(("busy", table)) => Found::Busy(table.to_owned()),
        Some(("dirty", path)) => Found::Spoilt(format!("its last task changed {path}")),
        _ => Found::Spoilt(format!("it answers '{answer}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_answer_lets_a_sandbox_be_handed_on() {
        assert_eq!(found("clean"), Found::Clean);
        assert_eq!(found("busy tcp"), Found::Busy("tcp".to_owned()));
        for answer in ["dirty /etc/hosts", "clean or so", ""] {
            assert!(matches!(found(answer), Found::Spoilt(_)), "{answer}");
        }
    }
}
