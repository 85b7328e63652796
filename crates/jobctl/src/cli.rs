//! The command line: commands, arguments, and their help.

#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "comments are help, where JOB[INDEX] is no link"
)]

mod access;
mod audit;
mod cluster;
mod context;
mod credentials;
mod duration;
mod events;
mod get;
mod graph;
mod groups;
mod init;
mod jobs;
mod keys;
mod logs;
mod node_tokens;
mod nodes;
mod open;
mod rerun;
mod run;
mod schedules;
mod secrets;
mod shared;
mod submit;
mod top;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::exit::EXIT_CODES;

pub(crate) use access::{
    LoginArgs, NamespaceCommand, NamespacePutArgs, TokenCommand, TokenCreateArgs, TokenRevokeArgs,
};
pub(crate) use audit::{AuditCommand, AuditListArgs};
pub(crate) use cluster::{ClusterArgs, ClusterCommand, DemandArgs};
pub(crate) use context::{ContextCommand, ContextShowArgs};
pub(crate) use credentials::{CredentialCommand, CredentialSetArgs};
pub(crate) use events::{EventsArgs, StreamLevel};
pub(crate) use get::GetArgs;
pub(crate) use graph::{GraphArgs, GraphCommand, GraphSubmitArgs};
pub(crate) use groups::GroupCommand;
pub(crate) use init::{InitArgs, JobCommand, JobType};
pub(crate) use jobs::{
    DescribeArgs, ExecutionOrder, ExecutionsArgs, ExplainArgs, HistoryArgs, ListArgs, StopArgs,
};
pub(crate) use keys::{KeyCommand, KeyRotateArgs, RotatedKey};
pub(crate) use logs::{LogsArgs, Stream as LogStream};
pub(crate) use node_tokens::{NodeTokenArgs, NodeTokenCommand, NodeTokenCreateArgs};
pub(crate) use nodes::{DrainArgs, NodeCommand, NodeHistoryArgs, NodeListArgs};
pub(crate) use open::OpenArgs;
pub(crate) use rerun::RerunArgs;
pub(crate) use run::{Engine, Network, RunArgs};
pub(crate) use schedules::{OneScheduleArgs, ScheduleCommand, SchedulePutArgs};
pub(crate) use secrets::{SecretCommand, SecretSetArgs};
pub(crate) use shared::{NamespaceArgs, OutputArgs};
pub(crate) use submit::{Goal, SubmitArgs, ValidateArgs, WaitArgs};
pub(crate) use top::TopArgs;

/// Submit and watch jobs, and manage the nodes that run them.
#[derive(Debug, Parser)]
#[command(name = "jobctl", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The address of the service; every command accepts these arguments.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Service")]
pub(crate) struct Global {
    /// Base URL of the service, or several separated by commas
    /// [JOBCTL_URL; else from the context; else http://127.0.0.1:1234]
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Context of the configuration file to use instead of the current one
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// CA of the service: a file in PEM, or sha256:… of its key
    /// [JOBCTL_CA; else from the context; else the system's]
    #[arg(long, global = true, value_name = "FILE|sha256:…")]
    pub(crate) ca: Option<String>,
    /// Configuration file [JOBCTL_CONFIG; else jobctl/config.yaml in the configuration directory]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an image or a WebAssembly module as a job, and wait until it ends
    Run(Box<RunArgs>),
    /// Write an example of a job file
    Init(InitArgs),
    /// Write an example of a job file
    #[command(subcommand, hide = true)]
    Job(JobCommand),
    /// Submit a job from a file in JSON or YAML
    Submit(SubmitArgs),
    /// Submit, show and stop jobs that depend on each other
    #[command(subcommand)]
    Graph(GraphCommand),
    /// Run a job that has ended again, or only the indexes of it that failed
    Rerun(RerunArgs),
    /// Show how a job would be stored, where it would run, and why not elsewhere
    Validate(ValidateArgs),
    /// List jobs, newest first
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Show a job with its executions and events, or one execution with what it uses
    Describe(DescribeArgs),
    /// List the executions of a job, or those that are live
    Executions(ExecutionsArgs),
    /// List the events of a job and its executions
    History(HistoryArgs),
    /// Show the output of a job's tasks
    Logs(LogsArgs),
    /// Show the events of all jobs, or of all nodes, live with --follow
    Events(EventsArgs),
    /// Wait for jobs to end, and return the exit code of a failed task
    Wait(WaitArgs),
    /// Stop jobs
    Stop(StopArgs),
    /// Download and unpack the published results of a job
    Get(GetArgs),
    /// Explain what a job waits for, node by node
    Explain(ExplainArgs),
    /// Open the page of a job in a browser, and print its address
    Open(OpenArgs),
    /// Show the running executions that use the most CPU or memory, live
    Top(TopArgs),
    /// Show how busy the cluster is, what waits for room, or its orchestrators
    Cluster(ClusterArgs),
    /// List, describe and manage nodes
    #[command(subcommand)]
    Node(NodeCommand),
    /// Sign in with a token or at an issuer, and keep that for later commands
    Login(LoginArgs),
    /// Forget the token that login kept
    Logout,
    /// Show your name, role and namespaces
    Whoami(OutputArgs),
    /// Create, list and revoke tokens
    #[command(subcommand)]
    Token(TokenCommand),
    /// Create, list and change namespaces
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Create, list and delete credentials, with which jobs sign in to other services
    #[command(subcommand, visible_alias = "credentials")]
    Credential(CredentialCommand),
    /// Create, list and delete concurrency groups, which limit what runs at the same time
    #[command(subcommand, visible_alias = "groups")]
    Group(GroupCommand),
    /// Create, list, pause and trigger schedules, which start jobs at the times of a cron expression
    #[command(subcommand, visible_alias = "schedules")]
    Schedule(ScheduleCommand),
    /// Create, list and delete secrets, which jobs refer to by name
    #[command(subcommand)]
    Secret(SecretCommand),
    /// List and rotate the keys of the cluster
    #[command(subcommand, visible_alias = "keys")]
    Key(KeyCommand),
    /// List and verify the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Manage the named contexts of the configuration file
    #[command(subcommand)]
    Context(ContextCommand),
    /// Show the versions of this program and of the service
    Version(VersionArgs),
    /// Print the completion script for a shell
    Completions {
        /// Shell to generate the script for
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands
    Man {
        /// Directory for the pages of all commands
        #[arg(value_name = "DIRECTORY")]
        directory: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    /// Only this program; does not contact the service
    #[arg(long)]
    pub(crate) client: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_argument_has_help() {
        fn walk(command: &clap::Command, missing: &mut Vec<String>) {
            for argument in command.get_arguments().filter(|a| a.get_help().is_none()) {
                missing.push(format!("{} {}", command.get_name(), argument.get_id()));
            }
            for inner in command.get_subcommands() {
                assert!(inner.get_about().is_some(), "{}", inner.get_name());
                walk(inner, missing);
            }
        }
        let mut missing = Vec::new();
        walk(&Cli::command(), &mut missing);
        assert_eq!(missing, Vec::<String>::new());
    }
}
