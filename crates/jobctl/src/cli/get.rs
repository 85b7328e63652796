//! Arguments of `jobctl get`.

use std::path::PathBuf;

use api_types::quantity::{InvalidQuantity, parse_bytes};
use clap::Args;

use super::shared::NamespaceArgs;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// Name or ID of the job, or an execution: JOB[INDEX] or its ID
    pub(crate) job: String,
    /// Target directory; created if absent [the short ID of the job]
    pub(crate) directory: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Only the result of the execution with this index
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<u64>,
    /// Only the result of this execution
    #[arg(long, value_name = "ID", conflicts_with = "index")]
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
