//! Arguments of `jobctl top`.

use clap::{Args, ValueEnum};

use super::shared::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Only executions of this job, by name or ID
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<String>,
    /// Only executions on this node, by name or ID
    #[arg(long, value_name = "NODE")]
    pub(crate) node: Option<String>,
    /// Only executions of this namespace
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// What to sort by
    #[arg(long, alias = "sort", value_enum, value_name = "KEY", default_value_t)]
    pub(crate) sort_by: Sort,
    /// Maximum number of executions
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub(crate) limit: u32,
    /// Show the executions once, instead of every two seconds
    #[arg(long)]
    pub(crate) once: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Sort {
    #[default]
    Cpu,
    Memory,
}

// === impl Sort ===

impl Sort {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }
}
