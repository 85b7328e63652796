//! Arguments of `jobctl rerun`.

use std::time::Duration;

use clap::{Args, ValueHint};

use super::duration;
use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Args)]
#[command(
    after_help = "Runs indexes of a batch or ops job that has ended, as a new job. They keep their indexes and
SERVICE_EXECUTION_COUNT, and those of an ops job their nodes. Without a choice, all run.

The file of --patch has the changes, in JSON or YAML: fields replace those of the job, null removes
one, and the entry of Tasks is merged with the job's task. Type, Namespace and Count stay.

Examples:
  jobctl rerun words --failed
  jobctl rerun words --not-completed --detach
  jobctl rerun words --indexes 3,17,90-99 --dry-run
  jobctl rerun words --failed --downstream
  echo '{\"Tasks\": [{\"Resources\": {\"Memory\": \"4gb\"}}]}' | jobctl rerun words --failed --patch -"
)]
pub(crate) struct RerunArgs {
    /// Name or ID of the job
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Only the indexes that failed
    #[arg(long, conflicts_with = "not_completed")]
    pub(crate) failed: bool,
    /// Only the indexes that failed, were cancelled, or never ran
    #[arg(long)]
    pub(crate) not_completed: bool,
    /// Of these, only the indexes in this list, like 3,17,90-99
    #[arg(long, value_name = "LIST")]
    pub(crate) indexes: Option<String>,
    /// Also run, as a graph, everything that did not run because of the job; prints the graph's ID
    /// and exits
    #[arg(long, conflicts_with_all = ["follow", "wait_timeout"])]
    pub(crate) downstream: bool,
    /// Changes of the job in JSON or YAML; - is standard input
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) patch: Option<String>,

    /// Show the task's output while it runs, which a terminal does without it
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) follow: bool,
    /// Print the ID of the new job and exit without waiting
    #[arg(short, long, conflicts_with = "follow")]
    pub(crate) detach: bool,
    /// Show which indexes would run, and where; store nothing
    #[arg(long, conflicts_with = "detach")]
    pub(crate) dry_run: bool,
    /// Do not create a second job if the same key is used again within 24 hours
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    /// Stop waiting after this time, like 90s or 10m; the job continues
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait_timeout: Option<Duration>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
