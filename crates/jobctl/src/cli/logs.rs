//! Arguments of `jobctl logs`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    /// ID of the job, or the beginning of it
    pub(crate) job: String,
    /// Go on with what is printed from now on, until the job is over
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only of this execution
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Of each execution only so many of the last lines
    #[arg(long, value_name = "N")]
    pub(crate) tail: Option<u64>,
    /// Only one of the streams
    #[arg(long, value_enum)]
    pub(crate) stream: Option<Stream>,
    /// Say before each line when it was printed
    #[arg(short, long)]
    pub(crate) timestamps: bool,
    /// Bytes as they were printed, both streams on standard output
    #[arg(long, conflicts_with = "timestamps")]
    pub(crate) raw: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}
