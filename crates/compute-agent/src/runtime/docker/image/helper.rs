//! A credential helper: `docker-credential-…`, invoked as docker's command line does.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::login::{ADDRESS_OF_THE_HUB, Login};
use super::reference::DOCKER_HUB;
use crate::host::settings::Secret;

/// Time limit of a helper; some call a network service.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Far above the size of credentials; longer output is refused.
const MAX_ANSWER_BYTES: u64 = 64 << 10;

/// The output that the protocol defines for a helper without credentials.
const NOT_FOUND: &str = "credentials not found in native keychain";

/// The username that marks an identity token.
const TOKEN: &str = "<token>";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    username: String,
    #[serde(default)]
    secret: String,
}

/// Runs the helper; none when it has no credentials for this registry.
pub(super) async fn get(program: &Path, registry: &str) -> Result<Option<Login>, String> {
    get_within(TIMEOUT, program, registry).await
}

async fn get_within(
    timeout: Duration,
    program: &Path,
    registry: &str,
) -> Result<Option<Login>, String> {
    let address = if registry == DOCKER_HUB { ADDRESS_OF_THE_HUB } else { registry };
    let shown = program.display();
    let (succeeded, answer) = tokio::time::timeout(timeout, run(program, address))
        .await
        .map_err(|_| format!("'{shown}' did not answer in {} s", timeout.as_secs()))?
        .map_err(|error| format!("cannot run '{shown}': {error}"))?;
    if !succeeded {
        // Its output may contain anything, so the error does not repeat it.
        return match String::from_utf8_lossy(&answer).contains(NOT_FOUND) {
            true => Ok(None),
            false => Err(format!(
                "'{shown}' failed; see what 'echo {address} | {shown} get' says on the node"
            )),
        };
    }
    let answer: Answer = serde_json::from_slice(&answer)
        .map_err(|_| format!("the output of '{shown}' is not that of a credential helper"))?;
    Ok(match answer.username.as_str() {
        _ if answer.secret.is_empty() => None,
        TOKEN => Some(Login::IdentityToken(Secret::new(answer.secret))),
        _ => {
            let Answer { username, secret } = answer;
            Some(Login::Password { username, password: Secret::new(secret) })
        }
    })
}

/// Whether it succeeded, and its output.
async fn run(program: &Path, address: &str) -> std::io::Result<(bool, Vec<u8>)> {
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that does not read its input may still respond.
        let _ = stdin.write_all(address.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(MAX_ANSWER_BYTES).read_to_end(&mut answer).await?;
    }
    Ok((child.wait().await?.success(), answer))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    async fn asked(script: &str, registry: &str) -> Result<Option<Login>, String> {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("docker-credential-test");
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        loop {
            match get_within(Duration::from_secs(2), &program, registry).await {
                // Another test that spawns a process may hold the script open for an instant.
                Err(reason) if reason.contains("Text file busy") => {
                    tokio::task::yield_now().await;
                }
                answer => return answer,
            }
        }
    }

    #[tokio::test]
    async fn the_helper_gets_the_registry_on_its_input() {
        let script = r#"read line; echo "{\"Username\":\"$1\",\"Secret\":\"$line\"}""#;
        for (registry, said) in [("host:5000", "host:5000"), (DOCKER_HUB, ADDRESS_OF_THE_HUB)] {
            let password = Secret::new(said);
            let wanted = Login::Password { username: "get".to_owned(), password };
            assert_eq!(asked(script, registry).await, Ok(Some(wanted)));
        }
    }

    #[tokio::test]
    async fn a_token_is_recognised_by_its_username() {
        let script = r#"echo '{"Username":"<token>","Secret":"t"}'"#;
        let wanted = Login::IdentityToken(Secret::new("t"));
        assert_eq!(asked(script, "host").await, Ok(Some(wanted)));
    }

    #[tokio::test]
    async fn a_helper_without_credentials_is_not_an_error() {
        assert_eq!(asked(&format!("echo {NOT_FOUND}; exit 1"), "host").await, Ok(None));
    }

    #[tokio::test]
    async fn a_failing_helper_is_reported_without_its_output() {
        for (script, part) in [
            ("echo hush; exit 1", "failed; see what 'echo host | "),
            ("echo hush", "is not that of a credential helper"),
            ("echo hush; exec sleep 60", "did not answer in 2 s"),
            ("exec yes hush", "failed; see what 'echo host | "),
        ] {
            let reason = asked(script, "host").await.unwrap_err();
            assert!(reason.contains(part) && !reason.contains("hush"), "{reason}");
        }
        let reason = get(Path::new("/absent/program"), "host").await.unwrap_err();
        assert!(reason.contains("cannot run '/absent/program'"), "{reason}");
    }
}
