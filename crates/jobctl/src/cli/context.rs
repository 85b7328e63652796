//! Arguments of `jobctl context …`.

use clap::Subcommand;

use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum ContextCommand {
    /// List the contexts of the configuration file
    List(OutputArgs),
    /// Make a context the current one
    Use {
        /// Name of the context
        name: String,
    },
    /// Add a context, or change one
    Set {
        /// Name of the context
        name: String,
        /// Namespace of commands that name none
        #[arg(short, long, value_name = "NAME")]
        namespace: Option<String>,
    },
    /// Remove a context
    Delete {
        /// Name of the context
        name: String,
    },
}
