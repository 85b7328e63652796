//! Arguments of the commands that submit a file or wait.

use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};

use super::duration;
use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Args)]
pub(crate) struct SubmitArgs {
    /// Job in JSON or YAML, bare or as {"Job": …}; - is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: String,
    /// Do not create a second job if the same key is used again within 24 hours
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Wait for the job to end, and return the exit code of a failed task
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
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// Names or IDs of the jobs
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// State to wait for
    #[arg(long = "for", value_enum, value_name = "STATE", default_value_t)]
    pub(crate) goal: Goal,
    #[command(flatten)]
    pub(crate) waiting: WaitingArgs,
}

/// How to wait.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WaitingArgs {
    /// Stop waiting after this time, like 90s or 10m; the job continues
    #[arg(long = "timeout", value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Goal {
    /// Completed, failed or stopped
    #[default]
    End,
    /// Running, or already ended
    Running,
}
