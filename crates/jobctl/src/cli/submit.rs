//! Arguments of the commands that submit a file, and of those that wait.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{OutputArgs, duration};

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Job in JSON or YAML, bare or as {"Job": …}; - is standard input
    pub(crate) file: String,
    /// A repetition with the same key within 24 hours makes no second job
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the job to end, and pass on the exit code of a task that failed
    #[arg(short, long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ValidateArgs {
    /// Job in JSON or YAML, bare or as {"Job": …}; - is standard input
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// IDs of the jobs, or the beginnings of them
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// What to wait for
    #[arg(long = "for", value_enum, value_name = "STATE", default_value_t)]
    pub(crate) goal: Goal,
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,
}

/// How to wait.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitingArgs {
    /// Give up waiting after this long, like 90s or 10m; the job goes on
    #[arg(long = "timeout", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Say nothing while waiting
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Goal {
    /// Completed, failed or stopped
    #[default]
    End,
    /// An execution runs, or the job has ended
    Running,
}
