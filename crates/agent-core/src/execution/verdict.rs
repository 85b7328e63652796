//! What the end of a process means.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

use api_types::execution::ComputeState;
use api_types::protocol::{FailureCause, Work};
use api_types::quantity::Bytes;
use api_types::usage::Usage;
use serde::{Deserialize, Serialize};

use super::{Exit, Failure, NO_EXIT_CODE, StopReason};
use crate::boot::BootId;

/// The outcome of a run, kept until its output and results are collected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub state: ComputeState,
    /// Whether the task or the node caused the failure, when the state is `Failed`.
    pub cause: FailureCause,
    pub message: String,
    /// Empty when the exit code is the whole explanation.
    pub runner_error: String,
    pub exit_code: i32,
    /// Whether a process of the task was killed because the task had used all of its memory.
    #[serde(default)]
    pub out_of_memory: bool,
}

/// What a process may have ended with, when nobody asked it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outage {
    Machine,
    Engine,
}

// === impl Outage ===

impl Outage {
    /// `noted` is the boot in which the process started.
    pub(super) fn of(exit: &Exit, noted: BootId, present: BootId) -> Option<Self> {
        if noted.differs_from(present) {
            Some(Self::Machine)
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
        })
    }
}

// === impl Verdict ===

impl Verdict {
    /// Nobody asked the process to end.
    pub(super) fn of_exit(exit: &Exit, outage: Option<Outage>, work: &Work) -> Self {
        match outage {
            // A success needs no second run, whatever happened meanwhile.
            Some(outage) if exit.code != 0 => Self::of_outage(outage, exit),
            Some(_) | None => Self::of_own_end(exit, work),
        }
    }

    /// The process ended with its machine or its engine. Its exit code is that of the outage.
    fn of_outage(outage: Outage, exit: &Exit) -> Self {
        let message = format!("{outage}; its process ended with exit code {}", exit.code);
        Self {
            state: ComputeState::Failed,
            cause: FailureCause::Node,
            runner_error: message.clone(),
            message,
            exit_code: NO_EXIT_CODE,
            out_of_memory: exit.out_of_memory,
        }
    }

    fn of_own_end(exit: &Exit, work: &Work) -> Self {
        let Exit { code, out_of_memory, ref fault, engine_away: _ } = *exit;
        let (state, cause) = match code {
            0 => (ComputeState::Completed, FailureCause::Task),
            _ => (ComputeState::Failed, FailureCause::Task),
        };
        // A task that continued after one of its processes was killed, and then succeeded, is
        // fine.
        let (message, runner_error) = match code {
            0 => (String::new(), String::new()),
            _ if out_of_memory => {
                let message = out_of_memory_message(work.resources.memory, fault.as_deref());
                (message.clone(), message)
            }
            _ if let Some(fault) = fault => (fault.clone(), fault.clone()),
            _ => (format!("exit code {code}"), String::new()),
        };
        Self { state, cause, message, runner_error, exit_code: code, out_of_memory }
    }

    /// The agent stopped the process.
    pub(super) fn of_stop(reason: &StopReason, exit: &Exit, work: &Work) -> Self {
        let (state, cause, message) = match reason {
            StopReason::NoLongerWanted { message } => {
                (ComputeState::Cancelled, FailureCause::Task, message.clone())
            }
            StopReason::ExecutionTimeout => {
                let limit = work.task.timeouts.execution_timeout;
                let message = format!("execution timeout: still running after {limit} s");
                (ComputeState::Failed, FailureCause::Timeout, message)
            }
            StopReason::Overfull(Failure { cause, message }) => {
                (ComputeState::Failed, *cause, message.clone())
            }
        };
        Self {
            state,
            cause,
            runner_error: message.clone(),
            message,
            exit_code: exit.code,
            out_of_memory: exit.out_of_memory,
        }
    }

    /// A task that ran out of memory has used all of its own, also where that went too quickly to be
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
            FailureCause::Node => FailureCause::Node,
            FailureCause::Task
            | FailureCause::Timeout
            | FailureCause::Fetch
            | FailureCause::Missing
            | FailureCause::Room
            | FailureCause::Publish => FailureCause::Publish,
        };
        self.spoilt(cause, message)
    }

    /// Fails a run that succeeded for this reason; returns the message for the user.
    pub(super) fn spoilt(&mut self, cause: FailureCause, message: String) -> String {
        if self.state == ComputeState::Completed {
            self.state = ComputeState::Failed;
            self.cause = cause;
            self.runner_error.clone_from(&message);
        }
        message
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
