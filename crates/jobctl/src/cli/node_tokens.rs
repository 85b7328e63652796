//! Arguments of `jobctl node token …`.

use std::time::Duration;

use api_types::NodeId;
use api_types::quantity::{Capacity, Resources, parse_bytes, parse_cpu_millis};
use clap::{Args, Subcommand};

use super::duration;
use super::shared::OutputArgs;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodeTokenArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NodeTokenCommand>,
    #[command(flatten)]
    pub(crate) create: NodeTokenCreateArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NodeTokenCommand {
    /// List the join tokens that have not expired
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Revoke join tokens; the nodes that have joined stay
    Revoke {
        /// IDs of the tokens
        #[arg(required = true, value_name = "ID")]
        tokens: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NodeTokenCreateArgs {
    /// How long a node may join with it: 90m, 24h, 7d
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = duration::parse)]
    pub(crate) ttl: Duration,
    /// How many nodes may join with it
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) uses: u32,
    /// Name of the node; one that is taken gets characters of the node's ID
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,
    /// Label of the nodes, which they cannot change; repeat it for several
    #[arg(short = 'l', long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
    /// The whole ID of a known node, which gets it back; its old key is refused from then on
    #[arg(long = "for", value_name = "NODE")]
    pub(crate) node: Option<NodeId>,
    /// The most cores that such a node may offer, like 8 or 500m
    #[arg(long, value_name = "CORES", value_parser = cpu)]
    pub(crate) max_cpu: Option<u64>,
    /// The most memory that such a node may offer, like 64GB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) max_memory: Option<u64>,
    /// The most disk that such a node may offer, like 1TB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) max_disk: Option<u64>,
    /// The most GPUs that such a node may offer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_gpu: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

// === impl NodeTokenCreateArgs ===

impl NodeTokenCreateArgs {
    /// None without any bound.
    pub(crate) fn max_capacity(&self) -> Option<Capacity> {
        let bounds = [self.max_cpu, self.max_memory, self.max_disk, self.max_gpu];
        let [cpu_millis, memory_bytes, disk_bytes, gpus] = bounds.map(Option::unwrap_or_default);
        let resources = Resources { cpu_millis, memory_bytes, disk_bytes, gpus };
        bounds.iter().any(Option::is_some).then(|| resources.into())
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        Some(_) | None => Err(format!("'{text}' is not a label like zone=a")),
    }
}

fn cpu(text: &str) -> Result<u64, String> {
    positive(parse_cpu_millis(text).map_err(|error| error.to_string())?)
}

fn bytes(text: &str) -> Result<u64, String> {
    positive(parse_bytes(text).map_err(|error| error.to_string())?)
}

/// The API takes 0 for no bound.
fn positive(amount: u64) -> Result<u64, String> {
    if amount == 0 { Err("a bound is more than 0".to_owned()) } else { Ok(amount) }
}
