//! What the end of a process means.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use api_types::engine::EngineType;
use api_types::execution::{ComputeState, NO_EXIT_CODE};
use api_types::protocol::{FailureCause, Work};
use api_types::quantity::Bytes;
use api_types::usage::Usage;
use serde::{Deserialize, Serialize};

use super::event::{Exit, Failure};
use super::phase::StopReason;
use crate::boot::BootId;

/// The outcome of a run, kept until its output and results are collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: ComputeState,
    /// Whether the task or the node caused the failure, when the state is `Failed`.
    pub cause: FailureCause,
    /// With the cause `Node`: a probe of this node failed as well.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub confirmed: bool,
    pub message: String,
    /// Empty when the exit code is the whole explanation.
    pub runner_error: String,
    pub exit_code: i32,
    /// Whether a process of the task was killed because the task had used all of its memory.
    #[serde(default)]
    pub out_of_memory: bool,
}

/// How a process may have ended that was not asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Machine,
    Engine,
    Removal,
}

// === impl Outage ===

impl Outage {
    /// `noted` is the boot in which the process started.
    pub(super) fn detect(exit: &Exit, noted: BootId, present: BootId) -> Option<Self> {
        if noted.differs_from(present) {
            Some(Self::Machine)
        } else if exit.is_removed {
            Some(Self::Removal)
        } else if exit.engine_away {
            Some(Self::Engine)
        } else {
            None
        }
    }
}

impl core::fmt::Display for Outage {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Machine => "its machine restarted while it ran",
            Self::Engine => "the Docker Engine was restarted or unreachable while it ran",
            Self::Removal => "its container was removed by someone else",
        })
    }
}

// === impl Verdict ===

impl Verdict {
    /// The process was not asked to end.
    pub(super) fn of_exit(exit: &Exit, outage: Option<Outage>, work: &Work) -> Self {
        match outage {
            // A success needs no second run, whatever else happened.
            Some(outage) if exit.code != 0 => Self::of_outage(outage, exit),
            Some(_) | None => Self::of_own_end(exit, work),
        }
    }

    /// The process ended with its machine, its engine or its container. Its exit code is that of the
    /// outage.
    fn of_outage(outage: Outage, exit: &Exit) -> Self {
        let message = match exit.code {
            NO_EXIT_CODE => format!("{outage}"),
            code => format!("{outage}; its process ended with exit code {code}"),
        };
        Self {
            state: ComputeState::Failed,
            cause: FailureCause::Node,
            confirmed: false,
            runner_error: message.clone(),
            message,
            exit_code: NO_EXIT_CODE,
            out_of_memory: exit.out_of_memory,
        }
    }

    fn of_own_end(exit: &Exit, work: &Work) -> Self {
        let Exit { code, out_of_memory, ref fault, ref remark, engine_away: _, is_removed: _ } =
            *exit;
        let (state, cause) = match code {
            0 => (ComputeState::Completed, FailureCause::Task),
            _ => (ComputeState::Failed, FailureCause::Task),
        };
        let (message, runner_error) = match code {
            // It succeeded by its own account, which may be of a part of its work.
            0 if out_of_memory => (killed_in_part(work.resources.memory), String::new()),
            0 => (String::new(), String::new()),
            _ if out_of_memory => {
                let message = out_of_memory_message(work.resources.memory, fault.as_deref());
                (message.clone(), message)
            }
            _ if let Some(fault) = fault => (fault.clone(), fault.clone()),
            _ => {
                let message = exit_message(code, work.task.engine.engine_type);
                match remark {
                    Some(remark) => (format!("{message}; {remark}"), remark.clone()),
                    None => (message, String::new()),
                }
            }
        };
        let confirmed = false;
        Self { state, cause, confirmed, message, runner_error, exit_code: code, out_of_memory }
    }

    /// The agent stopped the process.
    pub(super) fn of_stop(reason: &StopReason, exit: &Exit, work: &Work) -> Self {
        let (state, Failure { cause, message, confirmed, .. }) = match reason {
            StopReason::NoLongerWanted { message } => {
                (ComputeState::Cancelled, Failure::task(message.clone()))
            }
            StopReason::ExecutionTimeout => {
                let limit = work.task.timeouts.execution_timeout;
                let message = format!("execution timeout: still running after {limit} s");
                (ComputeState::Failed, Failure::new(FailureCause::Timeout, message))
            }
            StopReason::Overfull(failure) => (ComputeState::Failed, failure.clone()),
        };
        Self {
            state,
            cause,
            confirmed,
            runner_error: message.clone(),
            message,
            exit_code: exit.code,
            out_of_memory: exit.out_of_memory,
        }
    }

    /// A task that ran out of memory has used all it had, also where that went too quickly to be
    /// measured.
    pub(super) fn complete(&self, measured: Usage, work: &Work) -> Usage {
        let limit = if self.out_of_memory { work.resources.memory } else { 0 };
        Usage { memory_peak: measured.memory_peak.max(limit), ..measured }
    }

    /// Fails a run that succeeded but could not be published; returns the message for the user.
    pub(super) fn unpublished(&mut self, failure: Failure) -> String {
        let message = format!("the results could not be published: {}", failure.message);
        let cause = match failure.cause {
            // Its disk could not even hold the archive: another node may have room.
            FailureCause::Node | FailureCause::Refused => FailureCause::Node,
            FailureCause::Task
            | FailureCause::Timeout
            | FailureCause::Fetch
            | FailureCause::Missing
            | FailureCause::Room
            | FailureCause::Publish => FailureCause::Publish,
        };
        self.spoilt(Failure { cause, message, ..failure })
    }

    /// Fails a run that succeeded for this reason; returns the message for the user.
    pub(super) fn spoilt(&mut self, failure: Failure) -> String {
        let Failure { cause, message, confirmed, .. } = failure;
        if self.state == ComputeState::Completed {
            self.state = ComputeState::Failed;
            (self.cause, self.confirmed) = (cause, confirmed);
            self.runner_error.clone_from(&message);
        }
        message
    }
}

/// `exit code 137 (SIGKILL)`. What a shell and the Docker Engine mean by a code; a module's own codes
/// mean what it likes.
fn exit_message(code: i32, engine: EngineType) -> String {
    let meaning = match engine {
        EngineType::Docker => meaning(code),
        EngineType::Wasm | EngineType::Noop => None,
    };
    match meaning {
        Some(meaning) => format!("exit code {code} ({meaning})"),
        None => format!("exit code {code}"),
    }
}

const fn meaning(code: i32) -> Option<&'static str> {
    Some(match code {
        126 => "not executable",
        127 => "command not found",
        129 => "SIGHUP",
        130 => "SIGINT",
        131 => "SIGQUIT",
        132 => "SIGILL",
        134 => "SIGABRT",
        135 => "SIGBUS",
        136 => "SIGFPE",
        137 => "SIGKILL",
        139 => "SIGSEGV",
        141 => "SIGPIPE",
        142 => "SIGALRM",
        143 => "SIGTERM",
        _ => return None,
    })
}

/// Of a task that went on after one of its processes was killed.
fn killed_in_part(limit: u64) -> String {
    match limit {
        0 => "completed, but the kernel killed one of its processes: its machine ran out of memory"
            .to_owned(),
        limit => format!(
            "completed, but one of its processes was killed for using more than the {} of memory, \
             the limit in Resources.Memory",
            Bytes(limit)
        ),
    }
}

/// Names the limit that the task met, and where it is set.
fn out_of_memory_message(limit: u64, fault: Option<&str>) -> String {
    match (limit, fault) {
        (0, None) => "its machine ran out of memory, and the kernel killed it".to_owned(),
        (0, Some(fault)) => format!("its machine ran out of memory: {fault}"),
        (limit, None) => format!(
            "used more than its {} of memory and was killed; its limit is Resources.Memory",
            Bytes(limit)
        ),
        (limit, Some(fault)) => format!(
            "needed more than its {} of memory, the limit in Resources.Memory: {fault}",
            Bytes(limit)
        ),
    }
}

#[cfg(test)]
mod tests;
