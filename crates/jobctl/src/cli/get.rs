//! Arguments of `jobctl get`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// ID of the job, or a prefix of it
    pub(crate) job: String,
    /// Target directory; created if absent [the short ID of the job]
    pub(crate) directory: Option<PathBuf>,
    /// Only the result of this execution
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Save the archives (.tar.gz) without unpacking
    #[arg(long)]
    pub(crate) archive: bool,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
