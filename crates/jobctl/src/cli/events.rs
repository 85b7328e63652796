//! Arguments of `jobctl events`.

use clap::{Args, ValueEnum};

use super::jobs::absolute_time;
use super::shared::{NamespaceArgs, OutputArgs};

/// Default of `--since` without `--follow`.
const RECENT: &str = "1h";

#[derive(Debug, Args)]
pub(crate) struct EventsArgs {
    /// Continue with new events, until Ctrl-C
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Only events of this job, by name or ID
    #[arg(long, value_name = "JOB")]
    pub(crate) job: Option<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Events of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Level of events to show
    #[arg(long = "type", value_name = "LEVEL", value_enum, default_value_t)]
    pub(crate) level: StreamLevel,
    /// Only events since then: 10m, 2h, or a time in RFC 3339 [1h; with --follow: now]
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only events after this sequence number, which -o wide and -o json show
    #[arg(long, value_name = "SEQUENCE", conflicts_with = "since")]
    pub(crate) after: Option<u64>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StreamLevel {
    /// Events of jobs themselves
    Job,
    /// Events of executions
    Execution,
    /// Events of nodes, whatever the namespace
    Node,
    /// Events of jobs and executions
    #[default]
    All,
}

impl StreamLevel {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Execution => "execution",
            Self::Node => "node",
            Self::All => "all",
        }
    }
}

impl EventsArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        let recent = (!self.follow && self.after.is_none()).then_some(RECENT);
        self.since.as_deref().or(recent).map(|text| absolute_time(text, now))
    }
}
