//! Arguments of the commands about existing jobs.

use api_types::job::JobStateType;
use api_types::words::job_states;
use clap::{Args, ValueEnum};

use super::shared::{NamespaceArgs, OutputArgs, WatchArgs};
use crate::exit::UsageError;

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
    /// Only jobs in one of these states, like Queued,Running; Waiting is Pending,Queued
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
    /// Sort key; the latest or the highest comes first
    #[arg(long, value_enum, value_name = "KEY", default_value_t)]
    pub(crate) sort_by: JobOrder,
    /// The same as --sort-by changed
    #[arg(long, conflicts_with = "sort_by")]
    pub(crate) changed: bool,
    /// Reverse the order: oldest first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// Name or ID of the job, or an execution: JOB[INDEX] or its ID
    pub(crate) job: String,
    /// Only the execution of the job with this index
    #[arg(long, value_name = "N")]
    pub(crate) index: Option<u64>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// Name or ID of the job
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutionsArgs {
    /// Name or ID of the job
    #[arg(required_unless_present_any = ["node", "live"])]
    pub(crate) job: Option<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Executions on this node (name or ID) that have not ended, of all jobs
    #[arg(long, value_name = "NODE", conflicts_with = "job")]
    pub(crate) node: Option<String>,
    /// Executions of all jobs that have not ended
    #[arg(long, conflicts_with = "job")]
    pub(crate) live: bool,
    /// Only executions of the job in one of these states, like Failed,Declined
    #[arg(long, value_name = "STATES", conflicts_with_all = ["node", "live"])]
    pub(crate) state: Option<String>,
    /// Only executions of the job with these indexes, like 3,17,90-99
    #[arg(long, value_name = "INDEXES", conflicts_with_all = ["node", "live"])]
    pub(crate) index: Option<String>,
    /// Maximum number of executions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    /// Sort key of the executions of a job
    #[arg(
        long,
        alias = "sort",
        value_enum,
        value_name = "KEY",
        default_value_t,
        conflicts_with_all = ["node", "live"]
    )]
    pub(crate) sort_by: ExecutionOrder,
    /// Reverse the order
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum JobOrder {
    /// Their creation
    #[default]
    #[value(alias = "created_at", alias = "create_time")]
    Created,
    /// Their last change
    #[value(alias = "modified_at", alias = "modify_time")]
    Changed,
    Id,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ExecutionOrder {
    /// Their creation
    #[default]
    #[value(alias = "created_at", alias = "create_time")]
    Created,
    /// Their last change
    #[value(alias = "modified_at", alias = "modify_time")]
    Changed,
    /// Their state; reversed, failures come first
    State,
    Id,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// Name or ID of the job, or JOB[INDEX] for one execution
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Level of events to show
    #[arg(long = "type", value_name = "LEVEL", value_enum, default_value_t)]
    pub(crate) level: Level,
    /// Only events of this execution
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Only events on this node, by name or ID
    #[arg(long, value_name = "NODE")]
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
    /// Names or IDs of the jobs
    #[arg(required_unless_present = "selector", value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// All live jobs whose labels match, after a preview; repeated selectors must all match
    #[arg(short = 'l', long, value_name = "SELECTOR", conflicts_with = "jobs")]
    pub(crate) selector: Vec<String>,
    /// With --selector: do not ask; required where there is no terminal
    #[arg(short, long, requires = "selector")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
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

impl JobOrder {
    /// The value of `order_by`.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Created => "create_time",
            Self::Changed => "modify_time",
            Self::Id => "id",
        }
    }
}

impl ListArgs {
    pub(crate) const fn order(&self) -> JobOrder {
        if self.changed { JobOrder::Changed } else { self.sort_by }
    }

    /// The states as the service spells them.
    pub(crate) fn states(&self) -> Result<Option<String>, UsageError> {
        let Some(words) = &self.state else { return Ok(None) };
        let states = job_states(words).map_err(|unknown| UsageError::new(unknown.to_string()))?;
        let states: Vec<_> = states.into_iter().map(JobStateType::as_str).collect();
        Ok(Some(states.join(",")))
    }

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
