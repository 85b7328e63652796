//! Arguments of `jobctl open`.

use clap::Args;

use super::shared::NamespaceArgs;

#[derive(Debug, Args)]
pub(crate) struct OpenArgs {
    /// Name or ID of the job, or an execution: JOB[INDEX] or its ID [the overview of the cluster]
    pub(crate) job: Option<String>,
    /// The execution of the job with this index
    #[arg(long, value_name = "N", requires = "job")]
    pub(crate) index: Option<u64>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
}
