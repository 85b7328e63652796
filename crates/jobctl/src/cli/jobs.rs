//! Arguments of the commands about jobs that are there already.

use clap::{Args, ValueEnum};

use super::{NamespaceArgs, OutputArgs, WatchArgs};

/// How many jobs are listed when nothing else is said: what fits a screen.
const LISTED_JOBS: u32 = 20;

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// Jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Only jobs whose labels match, like 'team=a,stage in (dev,test)'; all given must match
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Vec<String>,
    /// Only jobs in one of these states, like Queued,Running
    #[arg(long, value_name = "STATES")]
    pub(crate) state: Option<String>,
    /// Only jobs of this type
    #[arg(long = "type", value_name = "TYPE")]
    pub(crate) job_type: Option<String>,
    /// Only jobs of exactly this name
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Only jobs created so long ago or later: 10m, 2h, or a moment in RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// At most so many jobs
    #[arg(long, value_name = "N", default_value_t = LISTED_JOBS, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    /// All jobs, however many
    #[arg(short, long, conflicts_with = "limit")]
    pub(crate) all: bool,
    /// The oldest first
    #[arg(short, long)]
    pub(crate) reverse: bool,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DescribeArgs {
    /// ID of the job, or the beginning of it
    pub(crate) job: String,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExecutionsArgs {
    /// ID of the job, or the beginning of it
    pub(crate) job: String,
    /// At most so many executions
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Args)]
pub(crate) struct HistoryArgs {
    /// ID of the job, or the beginning of it
    pub(crate) job: String,
    /// Which events
    #[arg(long = "type", value_name = "LEVEL", value_enum, default_value_t)]
    pub(crate) level: Level,
    /// Only events of this execution
    #[arg(long, value_name = "ID")]
    pub(crate) execution: Option<String>,
    /// Only events on this node
    #[arg(long, value_name = "ID")]
    pub(crate) node: Option<String>,
    /// Only events so long ago or later: 10m, 2h, or a moment in RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// At most so many events
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: Option<u32>,
    #[command(flatten)]
    pub(crate) watch: WatchArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Level {
    /// Of the job as a whole
    Job,
    /// Of its executions
    Execution,
    /// Both
    #[default]
    All,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// IDs of the jobs, or the beginnings of them
    #[arg(required = true, value_name = "JOB")]
    pub(crate) jobs: Vec<String>,
    /// Kept in the history
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

/// `10m` becomes the moment that long before now; everything else is left to the service.
pub(crate) fn moment(text: &str, now: api_types::Timestamp) -> String {
    match text.chars().last() {
        Some('s' | 'm' | 'h' | 'd') => super::duration::parse(text)
            .map_or_else(|_| text.to_owned(), |duration| (now - duration).rfc3339()),
        _ => text.to_owned(),
    }
}

impl ListArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| moment(text, now))
    }
}

impl HistoryArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| moment(text, now))
    }
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;

    use super::*;

    #[test]
    fn a_span_of_time_is_counted_back_from_now() {
        let now = Timestamp::parse("2026-11-21T08:10:00Z").unwrap();
        assert_eq!(moment("10m", now), "2026-11-21T08:00:00.000000000Z");
        assert_eq!(moment("1700000000", now), "1700000000");
        assert_eq!(moment("2026-11-21T08:10:00Z", now), "2026-11-21T08:10:00Z");
        assert_eq!(moment("soom", now), "soom");
    }
}
