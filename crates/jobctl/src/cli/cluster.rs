//! Arguments of `jobctl cluster`.

use clap::{Args, Subcommand};

use super::shared::OutputArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ClusterCommand>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// Show what waits for room, and how many nodes could run it
    Demand(DemandArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Each row is a class of executions that need the same. Columns:
  SLOTS     executions that wait; + if more wait than were counted
  CPU, MEMORY   what one reserves; - is the default of the node
  NODES     nodes that take work and could run one, of those that could while they are empty
  WAITS     how long the first of them has waited")]
pub(crate) struct DemandArgs {
    /// Only what waits in this namespace [all that you see]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Maximum number of classes
    #[arg(
        long,
        value_name = "N",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}
