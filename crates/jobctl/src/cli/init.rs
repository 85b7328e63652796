//! Arguments of `jobctl init`.

use clap::{Args, Subcommand, ValueEnum, ValueHint};

use super::run::Engine;

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  jobctl init && jobctl submit --wait job.yaml
  jobctl init --type service --engine wasm web.yaml
  jobctl init - | jobctl validate -")]
pub(crate) struct InitArgs {
    /// File to write; without remarks if it ends with .json; - is standard output
    #[arg(value_hint = ValueHint::FilePath, default_value = "job.yaml")]
    pub(crate) file: String,
    /// Type of the job
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value_t)]
    pub(crate) job_type: JobType,
    /// Engine that runs its task
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: Engine,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// The type of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum JobType {
    /// Runs to its end
    #[default]
    Batch,
    /// Runs to its end on every matching node
    Ops,
    /// Is kept running
    Service,
    /// Is kept running on every matching node
    Daemon,
}

/// The longer name of `init`.
#[derive(Debug, Subcommand)]
pub(crate) enum JobCommand {
    /// Write an example of a job file
    Init(InitArgs),
}

// === impl JobType ===

impl JobType {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Ops => "ops",
            Self::Service => "service",
            Self::Daemon => "daemon",
        }
    }
}
