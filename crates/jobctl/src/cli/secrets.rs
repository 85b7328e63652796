//! Arguments of `jobctl secret …`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// List the secrets of a namespace
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a secret, or give it another value, from a file or standard input
    Set(SecretSetArgs),
    /// Show a secret; nothing shows its value
    Describe {
        /// Name of the secret
        #[arg(value_name = "[NAMESPACE/]NAME")]
        name: String,
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete secrets; tasks that name them wait until they exist again
    Delete {
        /// Names of the secrets
        #[arg(required = true, value_name = "[NAMESPACE/]NAME")]
        names: Vec<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "The value is taken as it is, byte for byte; on a terminal, one line is asked \
for and not shown.

Examples:
  jobctl secret set prod/db --file password.txt
  pwgen -s 32 1 | tr -d '\\n' | jobctl secret set db
  jobctl run --secret db IMAGE -- cat /run/secrets/db"
)]
pub(crate) struct SecretSetArgs {
    /// Name of the secret
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// File with the value; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
