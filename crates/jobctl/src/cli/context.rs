//! Arguments of `jobctl context …`.

use clap::{Args, Subcommand};

use super::shared::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct ContextShowArgs {
    /// Name of the context [the current one]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts of the configuration file
    List(OutputArgs),
    /// Show what commands use, and where it comes from: the current context, or another
    Show(ContextShowArgs),
    /// Select the current context
    Use {
        /// Name of the context
        name: String,
    },
    /// Add or change a context
    Set {
        /// Name of the context
        name: String,
        /// Default namespace of commands
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
    },
    /// Remove a context
    Delete {
        /// Name of the context
        name: String,
    },
}
