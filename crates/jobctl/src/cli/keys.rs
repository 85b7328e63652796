//! Arguments of `jobctl key …`.

use clap::{Args, Subcommand, ValueEnum};

use super::shared::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// List the keys of the cluster, without their secret parts
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Replace a key; everything that depends on the old one keeps working
    Rotate(KeyRotateArgs),
}

#[derive(Debug, Args)]
pub(crate) struct KeyRotateArgs {
    /// Which key
    #[arg(value_enum, value_name = "KEY")]
    pub(crate) purpose: RotatedKey,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RotatedKey {
    /// The CA of nodes and clients; the old one is trusted until its last certificate has expired
    Ca,
    /// The key that encrypts secrets and credentials, which are encrypted again
    Secrets,
    /// The cluster key, which encrypts the other keys and is in a file; back it up again afterwards
    Cluster,
}
