//! Arguments of `jobctl node …`.

use clap::{Args, Subcommand, ValueEnum};

use super::{OutputArgs, WatchArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List the nodes
    #[command(visible_alias = "ls")]
    List(NodeListArgs),
    /// Show a node
    Describe {
        /// ID of the node, or the beginning of it
        node: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Place nothing new on nodes
    Cordon(NodeActionArgs),
    /// Place work on nodes again, after a cordon or a drain
    Uncordon(NodeActionArgs),
    /// Place nothing new on nodes, and move elsewhere what they run
    Drain(DrainArgs),
    /// Let nodes take part
    Approve(NodeActionArgs),
    /// Keep nodes from taking part
    Reject(NodeActionArgs),
    /// Forget nodes that are disconnected
    Delete {
        /// IDs of the nodes, or the beginnings of them
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NodeListArgs {
    /// Only nodes whose labels match, like 'zone in (a,b),gpu'; all given must match
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Vec<String>,
    /// At most so many nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// What to order by
    #[arg(long, value_enum, value_name = "KEY", default_value_t)]
    pub(crate) sort: NodeOrder,
    /// The other way round
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum NodeOrder {
    #[default]
    Id,
    Type,
    /// What is free, the least first
    AvailableCpu,
    AvailableMemory,
    AvailableDisk,
    AvailableGpu,
}

#[derive(Debug, Args)]
pub(crate) struct NodeActionArgs {
    /// IDs of the nodes, or the beginnings of them
    #[arg(required = true, value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Why, for whoever looks later
    #[arg(short, long, default_value = "", value_name = "TEXT")]
    pub(crate) message: String,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    pub(crate) action: NodeActionArgs,
    /// Wait until nothing runs on them any more
    #[arg(long)]
    pub(crate) wait: bool,
}

impl NodeOrder {
    /// As `order_by` has it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Type => "type",
            Self::AvailableCpu => "available_cpu",
            Self::AvailableMemory => "available_memory",
            Self::AvailableDisk => "available_disk",
            Self::AvailableGpu => "available_gpu",
        }
    }
}
