//! Arguments of `jobctl group …`.

use clap::{Args, Subcommand};

use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum GroupCommand {
    /// List the concurrency groups of a namespace
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a concurrency group, or change its limit
    Put(GroupPutArgs),
    /// Show a group, the jobs that run in it, and those that wait for it
    Describe {
        /// Name of the group
        #[arg(value_name = "[NAMESPACE/]NAME")]
        name: String,
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete groups that no live job names
    Delete {
        /// Names of the groups
        #[arg(required = true, value_name = "[NAMESPACE/]NAME")]
        names: Vec<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "An execution counts from the moment that a node is chosen until it has ended, but \
not while it waits for a retry. A lower limit stops nothing; 0 pauses the group.

Examples:
  jobctl group put db --limit 5
  jobctl run --group db IMAGE -- import
  jobctl group put prod/deploy --limit 1
  jobctl run -n prod --group deploy --on-conflict replace IMAGE -- deploy"
)]
pub(crate) struct GroupPutArgs {
    /// Name of the group
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Executions of all its jobs that may be live at the same time; 0 pauses the group
    #[arg(short, long, value_name = "N")]
    pub(crate) limit: u32,
}
