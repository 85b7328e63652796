//! Arguments of `jobctl graph …`.

use clap::{Args, Subcommand, ValueHint};

use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum GraphCommand {
    /// Submit jobs that depend on each other from a file in JSON or YAML, all or none
    Submit(GraphSubmitArgs),
    /// Show a graph with the states of its jobs
    Describe {
        #[command(flatten)]
        graph: GraphArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Stop all jobs of a graph
    Stop {
        #[command(flatten)]
        graph: GraphArgs,
    },
    /// List graphs, the newest first
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        namespace: NamespaceArgs,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "The file holds {\"Name\": …, \"Jobs\": {\"build\": {…}, \"test\": {…}}}; in \
DependsOn of a job, {\"Job\": \"build\"} names another one."
)]
pub(crate) struct GraphSubmitArgs {
    /// Graph in JSON or YAML; - is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: String,
    /// Do not create a second graph if the same key is used again within 24 hours
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// ID of the graph, or its name: the newest one that has it
    #[arg(value_name = "GRAPH")]
    pub(crate) graph: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
}
