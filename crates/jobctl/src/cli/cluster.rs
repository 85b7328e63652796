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
    /// List the orchestrators that share the store, and which of them leads
    #[command(after_help = "Columns:
  STATE     leads; ready to take the lead over; or not ready, as when it has not been seen for 30 seconds
  SEEN      how long ago it was last seen, by the database's clock
  DIFFERS   settings in which it differs from the leader, although they must be equal")]
    Members(OutputArgs),
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
