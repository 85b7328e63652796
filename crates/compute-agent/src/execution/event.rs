//! What happens to an execution, and what it makes happen.

use api_types::Timestamp;
use api_types::execution::{DesiredState, PublishedResult, RunOutput};
use api_types::protocol::{FailureCause, Report};
use serde::{Deserialize, Serialize};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The orchestrator tells what it wants.
    Desired {
        state: DesiredState,
        message: String,
    },
    /// How far the fetching of image and inputs is, in words for the user.
    Progress {
        message: String,
    },
    Prepared,
    Started {
        at: Timestamp,
    },
    TimedOut,
    /// It wrote more than it may, or than the node has room for.
    Overfull(Failure),
    Exited(Exit),
    Collected(Collected),
    /// The step under way cannot be done.
    Failed(Failure),
}

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: i32,
    /// Its memory limit was reached: the kernel killed a process of it, or it was refused more.
    pub out_of_memory: bool,
    /// What ended it, when that was no exit of its own: the trap of a wasm program.
    #[serde(default)]
    pub fault: Option<String>,
}

/// What was kept of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Collected {
    /// Its `exitCode` and `runnerError` are not looked at: the verdict has them.
    pub output: RunOutput,
    pub publishing: Publishing,
    /// What the user should know besides, like a result path that does not exist.
    pub notes: Vec<String>,
    /// Why the run has failed though its process went well: what it left is too much for its
    /// limit, or for the node's disk.
    pub spoilt: Option<Failure>,
}

/// What became of publishing a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Publishing {
    /// The task has nothing published.
    #[default]
    NotAsked,
    Done(PublishedResult),
    Failed(Failure),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub cause: FailureCause,
    /// What failed and what to do, in words for the user.
    pub message: String,
}

/// What is to be done now, once the ledger has what this execution has become; `Prepare` need not
/// wait for that.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    Report(Box<Report>),
    /// Fetch image and inputs, make the container.
    Prepare,
    /// Give up fetching, as soon as may be; the step still ends with its event.
    CancelPrepare,
    Start,
    /// Wait for the end of the process; tell when the deadline passes before it.
    Watch {
        deadline: Option<Timestamp>,
    },
    Stop,
    /// Take in what the process left behind, and publish it.
    Collect {
        exit_code: i32,
    },
    /// Remove the container and the inputs; nothing waits for it.
    Discard,
}

// === impl Failure ===

impl Failure {
    pub fn node(message: impl Into<String>) -> Self {
        Self { cause: FailureCause::Node, message: message.into() }
    }

    pub fn task(message: impl Into<String>) -> Self {
        Self { cause: FailureCause::Task, message: message.into() }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
