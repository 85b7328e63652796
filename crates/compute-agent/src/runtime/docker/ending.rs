//! Waits for the end of a container, however long the Engine is away in between.
//!
//! An Engine that restarts ends its containers, unless it keeps them alive (`live-restore`). Their
//! exit code then says nothing about the task, so the agent notes whether the Engine was away after
//! it last showed the container running.

use std::time::Duration;

use agent_core::execution::{Exit, NO_EXIT_CODE};
use api_types::ExecutionId;
use bollard::models::{ContainerInspectResponse, ContainerState, ContainerStateStatusEnum};
use bollard::query_parameters::{InspectContainerOptions, WaitContainerOptions};
use tracing::debug;

use super::{Docker, RETRY_FIRST, RETRY_LONGEST, error, name, remarks};
use crate::host::backoff::Backoff;
use crate::runtime::ExecutorError;

/// Consecutive errors of the Engine when the agent asks how a task ended, over half a minute or
/// more; after that the task fails.
const MAX_WAIT_REFUSALS: u32 = 12;

/// An Engine that has just returned may show a container as running that ended with it; one that
/// still runs after this time does run.
const SETTLING_TIME: Duration = Duration::from_secs(2);

/// The exit code of a process that SIGKILL ended, which is how the kernel ends one for its memory,
/// and the Engine one whose container is removed.
const KILLED: i64 = 137;

/// Pauses before it is asked again whether such a process was out of memory, or its container is being
/// removed: the Engine and this agent each learn of that separately from the end, and sometimes later.
const KILLED_PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(150), Duration::from_millis(300)];

/// Why SIGKILL ended a process, as far as the agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    /// Or the process ended otherwise.
    Unknown,
    OutOfMemory,
    /// With its container.
    Removed,
}

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
                Err(error @ (ExecutorError::Failed(_) | ExecutorError::Refused { .. }))
                    if contact.refused() =>
                {
                    debug!(execution = %id, %error, "docker cannot report the end of a task");
                }
                // After an outage the Engine may report an end before it knows the exit code.
                Ok(None) => contact.answered(),
                Ok(Some(exit)) => return Ok(self.ended(id, exit)),
                // Its output until then is kept.
                Err(ExecutorError::Gone) => {
                    let code = NO_EXIT_CODE;
                    let exit = Exit { code, is_removed: true, ..Exit::default() };
                    return Ok(self.ended(id, exit));
                }
                Err(error) => return Err(error),
            }
            backoff.wait().await;
        }
    }

    /// When the first process ended, the kernel killed all others.
    fn ended(&self, id: ExecutionId, exit: Exit) -> Exit {
        self.sandboxes.give_back(id);
        self.guarded.give_back(id);
        exit
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
        let mut waiting = std::pin::pin!(client.wait_container(&name, Some(options)));
        let answer = match contact.is_away {
            false => waiting.await,
            true => match tokio::time::timeout(SETTLING_TIME, &mut waiting).await {
                Ok(answer) => answer,
                Err(_) => {
                    if self.state(id).await?.running == Some(true) {
                        contact.outlived();
                    }
                    waiting.await
                }
            },
        };
        let code = answer.map_err(error::of_container)?.map(|answer| answer.status_code);
        let number = |code: Option<i64>| code.and_then(|code| i32::try_from(code).ok());
        let container = match self.inspect(id).await {
            // It was removed right after its end, or its end was the removal.
            Err(ExecutorError::Gone) => {
                let code = number(code).unwrap_or(NO_EXIT_CODE);
                return Ok(Some(Exit { code, is_removed: true, ..Exit::default() }));
            }
            container => container?,
        };
        let remark = remarks::of_container(container.config.as_ref());
        let state = state_of(container)?;
        if state.running == Some(true) || state.restarting == Some(true) {
            return Ok(None);
        }
        let killed = self.why_killed(id, &state).await;
        Ok(Some(Exit {
            code: number(state.exit_code).unwrap_or(NO_EXIT_CODE),
            out_of_memory: killed == Killed::OutOfMemory,
            fault: None,
            engine_away: contact.is_away,
            is_removed: killed == Killed::Removed,
            remark,
        }))
    }

    async fn inspect(&self, id: ExecutionId) -> Result<ContainerInspectResponse, ExecutorError> {
        let client = self.client()?;
        let found = client.inspect_container(&name(id), None::<InspectContainerOptions>).await;
        found.map_err(error::of_container)
    }

    pub(super) async fn state(&self, id: ExecutionId) -> Result<ContainerState, ExecutorError> {
        state_of(self.inspect(id).await?)
    }

    async fn why_killed(&self, id: ExecutionId, ended: &ContainerState) -> Killed {
        if ended.oom_killed == Some(true) || self.meter.was_out_of_memory(id) {
            return Killed::OutOfMemory;
        }
        if ended.exit_code != Some(KILLED) {
            return Killed::Unknown;
        }
        if is_being_removed(ended) {
            return Killed::Removed;
        }
        for pause in KILLED_PAUSES {
            tokio::time::sleep(pause).await;
            if self.meter.was_out_of_memory(id) {
                return Killed::OutOfMemory;
            }
            match self.state(id).await {
                Ok(state) if state.oom_killed == Some(true) => return Killed::OutOfMemory,
                Ok(state) if is_being_removed(&state) => return Killed::Removed,
                Err(ExecutorError::Gone) => return Killed::Removed,
                Ok(_) | Err(_) => {}
            }
        }
        Killed::Unknown
    }
}

fn state_of(container: ContainerInspectResponse) -> Result<ContainerState, ExecutorError> {
    let without = || error::unreachable("its response has no container state".to_owned());
    container.state.ok_or_else(without)
}

fn is_being_removed(state: &ContainerState) -> bool {
    use ContainerStateStatusEnum::{DEAD, REMOVING};
    state.dead == Some(true) || matches!(state.status, Some(REMOVING | DEAD))
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
