//! Arguments of `jobctl context …`.

use clap::Subcommand;

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts of the configuration file
    List(OutputArgs),
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
