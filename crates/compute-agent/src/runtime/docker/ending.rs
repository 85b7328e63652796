//! Waits for the end of a container, however long the Engine is away in between.
//!
//! An Engine that restarts ends its containers, unless it keeps them alive (`live-restore`). Their
//! exit code then says nothing about the task, so the agent notes whether the Engine was away after
//! it last showed the container running.

use std::time::Duration;

use agent_core::execution::{Exit, NO_EXIT_CODE};
use api_types::ExecutionId;
use bollard::models::ContainerState;
use bollard::query_parameters::WaitContainerOptions;
use futures_util::stream::StreamExt;
use tracing::debug;

use super::{Docker, RETRY_FIRST, RETRY_LONGEST, error, name};
use crate::host::backoff::Backoff;
use crate::runtime::ExecutorError;

/// Consecutive errors of the Engine when the agent asks how a task ended, over half a minute or
/// more; after that the task fails.
const MAX_WAIT_REFUSALS: u32 = 12;

/// An Engine that has just returned may show a container as running that ended with it; one that
/// still runs after this time does run.
const SETTLING_TIME: Duration = Duration::from_secs(2);

/// The exit code of a process that SIGKILL ended, which is how the kernel ends one for its memory.
const KILLED: i64 = 137;

/// Pauses before it is asked again whether such a process was out of memory: the Engine and this agent
/// each learn of that separately from the end, and sometimes later.
const MEMORY_PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(300)];

/// The Engine, as it showed itself while a container is waited for.
#[derive(Debug, Default)]
struct Contact {
    /// It was unreachable, or returned an error, after it last showed the container running.
    is_away: bool,
    /// Consecutive errors.
    refusals: u32,
}

// === impl Docker: endings ===

impl Docker {
    pub(super) async fn wait_for_end(&self, id: ExecutionId) -> Result<Exit, ExecutorError> {
        let mut backoff = Backoff::new(RETRY_FIRST, RETRY_LONGEST);
        let mut contact = Contact::default();
        loop {
            match self.end(id, &mut contact).await {
                Err(ExecutorError::Unreachable { reason, .. }) => {
                    contact.lost();
                    debug!(execution = %id, reason, "docker is unreachable while a task runs");
                }
                // A stopping or starting Engine may return any error.
                Err(ExecutorError::Failed(failure)) if contact.refused() => {
                    debug!(execution = %id, failure.message, "docker cannot report the end of a task");
                }
                // After an outage the Engine may report an end before it knows the exit code.
                Ok(None) => contact.answered(),
                Ok(Some(exit)) => {
                    // When the first process ended, the kernel killed all others.
                    self.sandboxes.give_back(id);
                    self.guarded.give_back(id);
                    return Ok(exit);
                }
                Err(error) => return Err(error),
            }
            backoff.wait().await;
        }
    }

    /// Waits on one connection; none when the container still runs after the connection ends.
    async fn end(
        &self,
        id: ExecutionId,
        contact: &mut Contact,
    ) -> Result<Option<Exit>, ExecutorError> {
        let client = self.client()?;
        let options = WaitContainerOptions { condition: "not-running".to_owned() };
        let name = name(id);
        let mut answers = std::pin::pin!(client.wait_container(&name, Some(options)));
        let answer = match contact.is_away {
            false => answers.next().await,
            true => match tokio::time::timeout(SETTLING_TIME, answers.next()).await {
                Ok(answer) => answer,
                Err(_) => {
                    if self.state(id).await?.running == Some(true) {
                        contact.outlived();
                    }
                    answers.next().await
                }
            },
        };
        match answer {
            // bollard turns an exit code into an error; the state below contains it as well.
            Some(Ok(_) | Err(bollard::errors::Error::DockerContainerWaitError { .. })) | None => {}
            Some(Err(error)) => return Err(error::of_container(error)),
        }
        let state = self.state(id).await?;
        if state.running == Some(true) || state.restarting == Some(true) {
            return Ok(None);
        }
        Ok(Some(Exit {
            code: state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(NO_EXIT_CODE),
            out_of_memory: self.was_out_of_memory(id, &state).await,
            fault: None,
            engine_away: contact.is_away,
        }))
    }

    async fn was_out_of_memory(&self, id: ExecutionId, ended: &ContainerState) -> bool {
        if ended.oom_killed == Some(true) || self.meter.was_out_of_memory(id) {
            return true;
        }
        if ended.exit_code != Some(KILLED) {
            return false;
        }
        for pause in MEMORY_PAUSES {
            tokio::time::sleep(pause).await;
            let is_known = self.meter.was_out_of_memory(id)
                || self.state(id).await.is_ok_and(|state| state.oom_killed == Some(true));
            if is_known {
                return true;
            }
        }
        false
    }
}

// === impl Contact ===

impl Contact {
    fn lost(&mut self) {
        self.is_away = true;
    }

    /// Whether to ask again.
    fn refused(&mut self) -> bool {
        self.is_away = true;
        self.refusals += 1;
        self.refusals <= MAX_WAIT_REFUSALS
    }

    fn answered(&mut self) {
        self.refusals = 0;
    }

    /// The container runs after all.
    fn outlived(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_engine_count_only_while_they_follow_one_another() {
        let mut contact = Contact::default();
        for _ in 0..100 {
            assert!(contact.refused() && contact.is_away);
            contact.outlived();
            assert!(!contact.is_away);
            assert!(contact.refused());
            contact.answered();
            assert!(contact.is_away, "it has not shown the container running");
        }
        for _ in 0..MAX_WAIT_REFUSALS {
            assert!(contact.refused());
            contact.lost();
        }
        assert!(!contact.refused());
    }
}
