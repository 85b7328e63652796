//! Arguments of `jobctl schedule …`.

use clap::{Args, Subcommand};

use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum ScheduleCommand {
    /// List the schedules of a namespace, with their next times and last runs
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a schedule, or replace it from now on
    Put(SchedulePutArgs),
    /// Show a schedule with its job and its next five times
    Describe(OneScheduleArgs),
    /// List what became of the newest due times, with the reasons where there is no job
    Runs(OneScheduleArgs),
    /// Start a job of the schedule now, also while it is paused
    Trigger(OneScheduleArgs),
    /// Let nothing be due until the schedule is resumed
    Pause(OneScheduleArgs),
    /// Let times be due again; those in the pause are not caught up
    Resume(OneScheduleArgs),
    /// Delete schedules; jobs that they started go on
    Delete {
        /// Names of the schedules
        #[arg(required = true, value_name = "[NAMESPACE/]NAME")]
        names: Vec<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OneScheduleArgs {
    /// Name of the schedule
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "CRON has five fields: minute, hour, day of the month, month, day of the \
week. If minute and hour are numbers, the schedule runs once on each day, also when clocks change; \
with * or / it follows elapsed time.

Examples:
  jobctl schedule put nightly report.yaml --cron '30 2 * * *' --time-zone Europe/Berlin
  jobctl schedule put prod/poll poll.json --cron '*/5 * * * *' --overlap Skip --catch-up None
  jobctl schedule runs nightly")]
pub(crate) struct SchedulePutArgs {
    /// Name of the schedule
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: String,
    /// File with a batch or ops job, as 'submit' takes it; - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// When the job is due
    #[arg(long, value_name = "CRON")]
    pub(crate) cron: String,
    /// Time zone of CRON, such as Europe/Berlin; UTC by default
    #[arg(long, value_name = "ZONE")]
    pub(crate) time_zone: Option<String>,
    /// If an earlier job is not over: Skip (default), Queue, Replace or Allow
    #[arg(long, value_name = "WORD")]
    pub(crate) overlap: Option<String>,
    /// What was due while the service was away: Latest (default), None or All (the newest 100)
    #[arg(long, value_name = "WORD")]
    pub(crate) catch_up: Option<String>,
    /// Do not catch up runs that are later than this; 0 for no bound
    #[arg(long, value_name = "SECONDS")]
    pub(crate) catch_up_seconds: Option<u32>,
    /// Delay the schedule by a fixed time of up to this, to spread many schedules
    #[arg(long, value_name = "SECONDS")]
    pub(crate) jitter_seconds: Option<u32>,
    /// Put it in a paused state
    #[arg(long)]
    pub(crate) paused: bool,
}
