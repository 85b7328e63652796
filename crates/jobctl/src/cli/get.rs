//! Arguments of `jobctl get`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// ID of the job, or the beginning of it
    pub(crate) job: String,
    /// Where to put it; made when it is not there [the short ID of the job]
    pub(crate) directory: Option<PathBuf>,
    /// Only what this execution published
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Keep the archives (.tar.gz) as they are
    #[arg(long)]
    pub(crate) archive: bool,
    /// Say nothing while downloading
    #[arg(short, long)]
    pub(crate) quiet: bool,
}
