//! Arguments of `jobctl get`.

use std::path::PathBuf;

use api_types::quantity::{InvalidQuantity, parse_bytes};
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
    /// Refuse a result that is larger than this, packed or unpacked
    #[arg(long, value_name = "BYTES", default_value = "10GB", value_parser = bytes)]
    pub(crate) max_bytes: u64,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

fn bytes(text: &str) -> Result<u64, InvalidQuantity> {
    parse_bytes(text)
}
