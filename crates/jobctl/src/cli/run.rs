//! Arguments of `jobctl run`.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::duration;
use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Args)]
#[command(after_help = "Sources of --input, and of the module for --engine wasm:
  s3://BUCKET/KEY            an object, or all objects below a KEY that ends with /
  https://HOST/PATH          a download
  git+https://HOST/REPO#REF  a clone; git-lfs+https:// includes large files
  ipfs://CID                 content of IPFS
  job://JOB/PATH#INDEX       published results of a job, which this one starts after: a file or
                             directory of them, of one index or the Same; by default all
  file:///DIRECTORY          a directory on the node, if its agent allows it
  data:TEXT                  a data URL (RFC 2397)
  @PATH                      a local file or directory, sent with the job (at most 7 MB)

A path that ends with / is a directory, in which a file keeps its name; a directory is at its path.

On a terminal, the output is shown while the task runs; elsewhere at the end, or with --follow.

Examples:
  jobctl run -i @config.yaml -i https://example.com/data.csv IMAGE -- wc -l /inputs/data.csv
  jobctl run --cpu 1 --memory 1gb -i @project:/src --workdir /src IMAGE -- make
  jobctl run --detach --count 10 --publisher s3://bucket/{jobID}/{executionID}.tar.gz IMAGE
  jobctl run --engine wasm @program.wasm -- argument")]
pub(crate) struct RunArgs {
    /// Image of the docker engine, or module of the wasm engine
    #[arg(value_name = "IMAGE")]
    pub(crate) image: String,
    /// Command and arguments for the image or module
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Engine that runs the task
    #[arg(long, value_enum, default_value_t)]
    pub(crate) engine: Engine,

    #[command(flatten)]
    pub(crate) job: JobArgs,
    #[command(flatten)]
    pub(crate) task: TaskArgs,

    /// Show the task's output while it runs, which a terminal does without it
    #[arg(short, long, conflicts_with = "dry_run")]
    pub(crate) follow: bool,
    /// Print the job's ID and exit without waiting
    #[arg(short, long, conflicts_with = "follow")]
    pub(crate) detach: bool,
    /// Show how the job would be stored and where it would run; store nothing
    #[arg(long, conflicts_with = "detach")]
    pub(crate) dry_run: bool,
    /// Stop waiting after this time, like 90s or 10m; the job continues
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait_timeout: Option<Duration>,
    /// Show no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// Name of the job [a generated one, such as busybox-4f2a]
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// batch, ops, service or daemon
    #[arg(long = "type", value_name = "TYPE", default_value = "batch")]
    pub(crate) job_type: String,
    /// Number of executions
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u32>,
    /// Executions that may run at the same time; batch and ops jobs only
    #[arg(long, value_name = "N")]
    pub(crate) max_running: Option<u32>,
    /// Concurrency group that limits the executions of several jobs; may be repeated
    #[arg(long = "group", value_name = "NAME")]
    pub(crate) groups: Vec<String>,
    /// queue: wait for the group [default]; replace: stop the jobs before this one in it
    #[arg(long, value_name = "WORD", requires = "groups")]
    pub(crate) on_conflict: Option<String>,
    /// Priority from 0 to 100, higher first
    #[arg(long, value_name = "N")]
    pub(crate) priority: Option<u32>,
    /// Label of the job; may be repeated
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,
    /// Only on nodes whose labels match, like 'zone in (a,b),gpu'; may be repeated
    #[arg(long = "constraint", value_name = "SELECTOR")]
    pub(crate) constraints: Vec<String>,
    /// Total attempts when an execution fails
    #[arg(long, value_name = "N")]
    pub(crate) attempts: Option<u32>,
    /// Failed executions of batch and ops jobs before the job fails [0]; -1 for any number
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) max_failed: Option<i32>,
    /// Start after this job of the namespace, by name or ID; ends in ':completed' (default),
    /// ':failed', ':ended', or ':same' to start each index after the same one there; may be repeated
    #[arg(long, value_name = "JOB[:CONDITION]")]
    pub(crate) after: Vec<String>,
    /// Fail the job if it waits longer for capacity
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) queue_timeout: Option<Duration>,
    /// Fail the job if it takes longer in total
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) total_timeout: Option<Duration>,
    /// Wait this long for a silent node before replacing its work
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) lost_after: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Task")]
pub(crate) struct TaskArgs {
    /// Cores like 0.5, or millicores like 500m
    #[arg(long)]
    pub(crate) cpu: Option<String>,
    /// Bytes with a unit, like 512mb or 1Gi
    #[arg(long)]
    pub(crate) memory: Option<String>,
    /// Bytes with a unit, like 10gb
    #[arg(long)]
    pub(crate) disk: Option<String>,
    /// Number of GPUs
    #[arg(long)]
    pub(crate) gpu: Option<String>,
    /// Input, and its absolute path inside the task [/inputs/]; may be repeated
    #[arg(short, long = "input", value_name = "SOURCE[:/PATH]")]
    pub(crate) inputs: Vec<String>,
    /// Directory or file of the task to publish under a name; may be repeated
    #[arg(long = "result", value_name = "NAME:/PATH", value_parser = result_path)]
    pub(crate) results: Vec<(String, String)>,
    /// Destination of results: local, ipfs, noop, or s3://BUCKET/KEY
    #[arg(short, long)]
    pub(crate) publisher: Option<String>,
    /// Environment variable, or with its name alone the one of this shell; may be repeated
    #[arg(short, long = "env", value_name = "KEY[=VALUE]", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Secret, and its absolute path inside the task [/run/secrets/NAME], or its variable; may be
    /// repeated
    #[arg(long = "secret", value_name = "NAME[:/PATH|:VARIABLE]")]
    pub(crate) secrets: Vec<String>,
    /// Credentials of the namespace for the registry of the image, or the server of the module
    #[arg(long, value_name = "NAME")]
    pub(crate) credentials: Option<String>,
    /// Replaces the entry point of the image, or _start of the module
    #[arg(long)]
    pub(crate) entrypoint: Option<String>,
    /// Working directory in the container; docker only
    #[arg(short, long, value_name = "PATH")]
    pub(crate) workdir: Option<String>,
    /// Network access of the task
    #[arg(long, value_enum, default_value_t)]
    pub(crate) network: Network,
    /// Domain that the task may reach with --network http; may be repeated
    #[arg(long = "domain", value_name = "NAME")]
    pub(crate) domains: Vec<String>,
    /// Fail an execution if it runs longer
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Engine {
    #[default]
    Docker,
    Wasm,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Network {
    #[default]
    None,
    Full,
    /// HTTP to the domains of --domain only
    Http,
}

pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

/// A variable; its value is the caller's unless it is given.
fn variable(text: &str) -> Result<(String, String), String> {
    if text.contains('=') || text.is_empty() {
        return pair(text);
    }
    match std::env::var(text) {
        Ok(value) => Ok((text.to_owned(), value)),
        Err(std::env::VarError::NotPresent) => {
            Err(format!("{text} is not set here; write {text}=VALUE"))
        }
        Err(std::env::VarError::NotUnicode(_)) => {
            Err(format!("the value of {text} is not UTF-8; jobs are text"))
        }
    }
}

fn result_path(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, path)) if !name.is_empty() && path.starts_with('/') => {
            Ok((name.to_owned(), path.to_owned()))
        }
        _ => Err("expected NAME:/PATH with an absolute path".to_owned()),
    }
}
