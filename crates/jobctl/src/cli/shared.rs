//! Arguments that several commands share.

use clap::Args;

use crate::output::Format;

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct OutputArgs {
    /// Output format
    #[arg(short = 'o', long = "output", value_name = "FORMAT", value_enum, default_value_t)]
    pub(crate) format: Format,
}

/// Lists that can be watched.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    /// Continue with every change, until Ctrl-C
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// The namespace of a job.
#[derive(Debug, Clone, Args)]
pub(crate) struct NamespaceArgs {
    /// Namespace, or '*' for the jobs of all [from the context; else default]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
}
