//! Arguments of `jobctl logs`.

use clap::{Args, ValueEnum};

use super::shared::NamespaceArgs;

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// Name or ID of the job, or an execution: JOB[INDEX] or its ID
    #[arg(required_unless_present = "selector")]
    pub(crate) job: Option<String>,
    /// Output of all jobs whose labels match; repeated selectors must all match
    #[arg(
        short = 'l',
        long,
        value_name = "SELECTOR",
        conflicts_with_all = ["job", "index", "execution", "raw"]
    )]
    pub(crate) selector: Vec<String>,
    /// With --selector: do not ask, however many jobs match
    #[arg(short, long, requires = "selector")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Continue with new output until the job is over
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only the execution with this index
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<u64>,
    /// Only this execution
    #[arg(long, value_name = "ID", conflicts_with = "index")]
    pub(crate) execution: Option<String>,
    /// Only the last N lines of each execution
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Only this stream
    #[arg(long, value_enum)]
    pub(crate) stream: Option<Stream>,
    /// Prefix each line with its time
    #[arg(short, long)]
    pub(crate) timestamps: bool,
    /// Write the bytes of both streams to standard output as they are, whatever they do to a terminal
    #[arg(long, conflicts_with = "timestamps")]
    pub(crate) raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}
