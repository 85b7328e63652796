//! Events that an execution receives, and effects that it requests.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use api_types::Timestamp;
use api_types::curve::UsageCurve;
use api_types::execution::{DesiredState, PublishedResult, RunOutput};
use api_types::log::OutputTail;
use api_types::protocol::{FailureCause, Report, cut_message};
use api_types::usage::Usage;
use serde::{Deserialize, Serialize};

/// Something that happened to an execution.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The orchestrator's desired state changed.
    Desired {
        state: DesiredState,
        message: String,
    },
    /// Progress of fetching the image and inputs, in words for the user.
    Progress {
        message: String,
    },
    Prepared,
    Started {
        at: Timestamp,
        /// What the user should know although it has started.
        remark: Option<String>,
    },
    /// The engine could not be reached, and the start is no longer wanted. Its process may run
    /// nevertheless.
    StartGivenUp,
    TimedOut,
    /// The task wrote more than its limit, or more than the node has space for.
    Overfull(Failure),
    Exited(Exit),
    Collected(Box<Collected>),
    /// The step under way failed.
    Failed(Failure),
}

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: i32,
    /// The task reached its memory limit: the kernel killed one of its processes, or refused it
    /// memory.
    pub out_of_memory: bool,
    /// The cause of the end when the process did not exit by itself, such as a wasm trap.
    #[serde(default)]
    pub fault: Option<String>,
    /// The engine could not be reached after it last showed the process running.
    #[serde(default)]
    pub engine_away: bool,
    /// Someone other than the agent removed the process together with its container.
    #[serde(default)]
    pub is_removed: bool,
    /// What may explain a failure.
    #[serde(default)]
    pub remark: Option<String>,
}

/// What the agent kept of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// Its `exitCode` and `runnerError` are ignored: the verdict holds them.
    pub output: RunOutput,
    /// The end of the output, if the report is to carry it.
    pub tail: Option<OutputTail>,
    pub usage: Option<Usage>,
    /// What it used over time.
    pub curve: Option<UsageCurve>,
    pub publishing: Publishing,
    /// Bytes of output and results that stay on the node; none if unknown.
    pub kept_bytes: Option<u64>,
    /// Notes for the user, such as a result path that does not exist.
    pub notes: Vec<String>,
    /// Why the run failed although its process succeeded: its output exceeds its limit, or the
    /// space on the node's disk.
    pub spoilt: Option<Failure>,
}

/// The outcome of publishing a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Publishing {
    /// The task has no publisher.
    #[default]
    NotAsked,
    Done(PublishedResult),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub cause: FailureCause,
    /// Of a fetch: the server says that it does not exist or is not allowed.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub definite: bool,
    /// What failed and what to do next, in words for the user.
    pub message: String,
    /// With the cause `Node`: a probe of this node failed as well.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub confirmed: bool,
}

/// What to do once the ledger has committed this execution's new state; `Prepare` need not wait
/// for the commit.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Report(Box<Report>),
    /// Fetch the image and inputs, and create the container.
    Prepare,
    /// Cancel the fetch, or further attempts to start, as soon as possible; the step still ends with
    /// its event.
    Cancel,
    Start,
    /// Wait for the process to end; send an event if the deadline passes first.
    Watch {
        deadline: Option<Timestamp>,
    },
    Stop,
    /// Collect what the process left behind, and publish it.
    Collect {
        exit_code: i32,
    },
    /// Remove the container and the inputs; nothing waits for this.
    Discard,
}

// === impl Event ===

impl Event {
    /// Cuts what it quotes of a task or a server: it is kept in the ledger and in reports.
    pub(crate) fn cut_texts(&mut self) {
        match self {
            Self::Progress { message } => cut_message(message),
            Self::Overfull(failure) | Self::Failed(failure) => cut_message(&mut failure.message),
            Self::Exited(exit) => {
                exit.fault.iter_mut().chain(&mut exit.remark).for_each(cut_message);
            }
            Self::Started { remark, .. } => remark.iter_mut().for_each(cut_message),
            Self::Collected(collected) => {
                collected.notes.iter_mut().for_each(cut_message);
                if let Some(failure) = &mut collected.spoilt {
                    cut_message(&mut failure.message);
                }
                if let Publishing::Failed(failure) = &mut collected.publishing {
                    cut_message(&mut failure.message);
                }
            }
            Self::Desired { .. } | Self::Prepared | Self::StartGivenUp | Self::TimedOut => {}
        }
    }
}

// === impl Failure ===

impl Failure {
    pub fn node(message: impl Into<String>) -> Self {
        Self::new(FailureCause::Node, message)
    }

    /// An image, a module or an input cannot be had: no fault of the node.
    pub fn fetch(message: impl Into<String>) -> Self {
        Self::new(FailureCause::Fetch, message)
    }

    /// What the task names does not exist.
    pub fn missing(message: impl Into<String>) -> Self {
        Self::new(FailureCause::Missing, message)
    }

    pub fn task(message: impl Into<String>) -> Self {
        Self::new(FailureCause::Task, message)
    }

    /// This node does not take something that the task names. A probe tells whether the node is at
    /// fault, before it is reported.
    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(FailureCause::Refused, message)
    }

    /// No probe has confirmed it.
    pub fn new(cause: FailureCause, message: impl Into<String>) -> Self {
        Self { cause, definite: false, message: message.into(), confirmed: false }
    }

    /// The node's, as a probe has shown.
    pub fn confirmed(message: impl Into<String>) -> Self {
        Self { confirmed: true, ..Self::node(message) }
    }

    /// A server says that what is to be fetched does not exist or is not allowed.
    pub fn definite(message: impl Into<String>) -> Self {
        Self { definite: true, ..Self::fetch(message) }
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.message)
    }
}
