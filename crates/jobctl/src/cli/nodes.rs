//! Arguments of `jobctl node …`.

use clap::{Args, Subcommand, ValueEnum};

use super::jobs::absolute_time;
use super::node_tokens::NodeTokenArgs;
use super::shared::{OutputArgs, WatchArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// List nodes
    #[command(visible_alias = "ls")]
    List(NodeListArgs),
    /// Show a node
    Describe {
        /// Name or ID of the node
        node: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show the history of a node: sessions, silence, failures, and operators' decisions
    History(NodeHistoryArgs),
    /// Place no new executions on nodes
    Cordon(NodeActionArgs),
    /// Place executions on nodes again, after a cordon or a drain
    Uncordon(NodeActionArgs),
    /// Place no new executions on nodes, and move their executions elsewhere
    Drain(DrainArgs),
    /// Admit nodes to the cluster
    Approve(NodeActionArgs),
    /// Keep nodes out of the cluster
    Reject(NodeActionArgs),
    /// Replace the operator labels of a node
    Label {
        /// Name or ID of the node
        node: String,
        /// The labels, as KEY=VALUE; none removes all
        #[arg(value_name = "KEY=VALUE", value_parser = super::run::pair)]
        labels: Vec<(String, String)>,
    },
    /// Create a join token for a new node, and print it; it is not shown again
    Token(NodeTokenArgs),
    /// Delete disconnected nodes
    Delete {
        /// Names or IDs of the nodes
        #[arg(required = true, value_name = "NODE")]
        nodes: Vec<String>,
        /// Give up its executions immediately; one that the machine still runs then runs twice
        #[arg(long)]
        now: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NodeListArgs {
    /// Only nodes whose labels match, like 'zone in (a,b),gpu'; repeated selectors must all match
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Vec<String>,
    /// Maximum number of nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Sort key
    #[arg(long, alias = "sort", value_enum, value_name = "KEY", default_value_t)]
    pub(crate) sort_by: NodeOrder,
    /// Reverse the order
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
    /// Free capacity, least first
    AvailableCpu,
    AvailableMemory,
    AvailableDisk,
    AvailableGpu,
}

#[derive(Debug, Args)]
pub(crate) struct NodeHistoryArgs {
    /// Name or ID of the node; the whole ID of a deleted node
    pub(crate) node: String,
    /// Only events since then: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Maximum number of events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct NodeActionArgs {
    /// Names or IDs of the nodes
    #[arg(required = true, value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// Reason, for other operators
    #[arg(short, long, default_value = "", value_name = "TEXT")]
    pub(crate) message: String,
}

#[derive(Debug, Args)]
pub(crate) struct DrainArgs {
    /// Names or IDs of the nodes
    #[arg(required_unless_present = "selector", value_name = "NODE")]
    pub(crate) nodes: Vec<String>,
    /// All nodes whose labels match, after a preview; repeated selectors must all match
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "nodes")]
    pub(crate) selector: Vec<String>,
    /// With --selector: do not ask; required where there is no terminal
    #[arg(short, long, requires = "selector")]
    pub(crate) yes: bool,
    /// Reason, for other operators
    #[arg(short, long, default_value = "", value_name = "TEXT")]
    pub(crate) message: String,
    /// Wait until the nodes run nothing
    #[arg(long)]
    pub(crate) wait: bool,
}

impl NodeHistoryArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| absolute_time(text, now))
    }
}

impl NodeOrder {
    /// The value of `order_by`.
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
