//! Arguments of the commands about existing jobs.

use clap::{Args, ValueEnum};

use super::{NamespaceArgs, OutputArgs, WatchArgs};

/// Default limit of listed jobs: fits on a screen.
const LISTED_JOBS: u32 = 20;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only jobs whose labels match, like 'team=a,stage in (dev,test)'; repeated selectors must all match
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Vec<String>,
    /// Only jobs in one of these states, like Queued,Running
    #[arg(long, value_name = "STATES")]
    pub(crate) state: Option<String>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only jobs with exactly this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only jobs whose name begins with this
    #[arg(long, value_name = "PREFIX", conflicts_with = "name")]
    pub(crate) name_prefix: Option<String>,
    /// Only jobs created since then: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Only jobs created before then
    #[arg(long, value_name = "WHEN")]
    pub(crate) before: Option<String>,
    /// Maximum number of jobs
    #[arg(long, value_name = "N", default_value_t = LISTED_JOBS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All jobs, without a limit
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// In the order of their last change instead of their creation
    #[arg(long)]
    pub(crate) changed: bool,
    /// Oldest first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// ID of the job, or a prefix of it
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutionsArgs {
    /// ID of the job, or a prefix of it
    #[arg(required_unless_present_any = ["node", "live"])]
    pub(crate) job: Option<String>,
    /// Executions on this node that have not ended, of all jobs
    #[arg(long, value_name = "NODE", conflicts_with = "job")]
    pub(crate) node: Option<String>,
    /// Executions of all jobs that have not ended
    #[arg(long, conflicts_with = "job")]
    pub(crate) live: bool,
    /// Maximum number of executions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Sort key of the executions of a job
    #[arg(long, value_enum, value_name = "KEY", default_value_t, conflicts_with_all = ["node", "live"])]
    pub(crate) sort: ExecutionOrder,
    /// Reverse the order
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExecutionOrder {
    /// Their creation
    #[default]
    Created,
    /// Their last change
    Changed,
    /// Their state; reversed, failures come first
    State,
    Id,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// ID of the job, or a prefix of it
    pub(crate) job: String,
    /// Level of events to show
    #[arg(long = "type", value_name = "LEVEL", value_enum, default_value_t)]
    pub(crate) level: Level,
    /// Only events of this execution
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Only events on this node
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,
    /// Only events since then: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Maximum number of events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Level {
    /// Events of the job itself
    Job,
    /// Events of its executions
    Execution,
    /// Both
    #[default]
    All,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// IDs of the jobs, or prefixes of them
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Reason, recorded in the history
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

impl Level {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Job => "job",
            Self::Execution => "execution",
            Self::All => "all",
        }
    }
}

/// Converts an age like `10m` into an absolute time; leaves anything else to the service.
pub(crate) fn absolute_time(text: &str, now: api_types::Timestamp) -> String {
    match text.chars().last() {
        Some('s' | 'm' | 'h' | 'd') => super::duration::parse(text)
            .map_or_else(|_| text.to_owned(), |duration| (now - duration).rfc3339()),
        _ => text.to_owned(),
    }
}

impl ExecutionOrder {
    /// The value of `order_by`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Created => "create_time",
            Self::Changed => "modify_time",
            Self::State => "state",
            Self::Id => "id",
        }
    }
}

impl ListArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| absolute_time(text, now))
    }

    pub(crate) fn before(&self, now: api_types::Timestamp) -> Option<String> {
        self.before.as_deref().map(|text| absolute_time(text, now))
    }
}

impl HistoryArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| absolute_time(text, now))
    }
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;

    use super::*;

    #[test]
    fn an_age_is_subtracted_from_now() {
        let now = Timestamp::parse("2026-11-21T08:10:00Z").unwrap();
        assert_eq!(absolute_time("10m", now), "2026-11-21T08:00:00.000000000Z");
        assert_eq!(absolute_time("1700000000", now), "1700000000");
        assert_eq!(absolute_time("2026-11-21T08:10:00Z", now), "2026-11-21T08:10:00Z");
        assert_eq!(absolute_time("soom", now), "soom");
    }
}
