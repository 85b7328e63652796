//! Arguments of `jobctl logs`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// ID of the job, or a prefix of it
    pub(crate) job: String,
    /// Continue with new output until the job is over
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only this execution
    #[arg(long, value_name = "ID")]
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
    /// Write the raw bytes of both streams to standard output
    #[arg(long, conflicts_with = "timestamps")]
    pub(crate) raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}
