//! Arguments of `jobctl login`, `jobctl token …` and `jobctl namespace …`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::duration;
use super::shared::OutputArgs;

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// File with the token, or - for standard input; without it, the token is asked for
    #[arg(long, value_name = "FILE", conflicts_with_all = ["oidc", "id_token_file"])]
    pub(crate) token_file: Option<PathBuf>,
    /// Sign in with a browser at the issuer that the service trusts (OpenID Connect)
    #[arg(long, conflicts_with = "id_token_file")]
    pub(crate) oidc: bool,
    /// File with an ID token of that issuer, or - for standard input; for CI and Kubernetes
    #[arg(long, value_name = "FILE")]
    pub(crate) id_token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// List the tokens that you manage
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Create a token, and print it; it is not shown again
    Create(TokenCreateArgs),
    /// Revoke tokens; what they opened ends immediately
    Revoke(TokenRevokeArgs),
}

#[derive(Debug, Args)]
pub(crate) struct TokenRevokeArgs {
    /// IDs of the tokens
    #[arg(required_unless_present = "subject", value_name = "ID")]
    pub(crate) tokens: Vec<String>,
    /// Revoke the tokens that they made too, directly or through others
    #[arg(long)]
    pub(crate) descendants: bool,
    /// Revoke all tokens of a person who signed in at the issuer, and those that they made
    #[arg(long, value_name = "SUBJECT", conflicts_with_all = ["tokens", "descendants"])]
    pub(crate) subject: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// Whose it is, or what uses it
    pub(crate) name: String,
    /// Role of the token
    #[arg(long, value_enum, value_name = "ROLE", default_value_t)]
    pub(crate) role: TokenRole,
    /// Namespace that the role applies to, or '*' for all; repeat it for several
    /// [from the context; else default]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) namespace: Vec<String>,
    /// Lifetime, like 90m, 720h or 30d; without it, the token does not expire
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) ttl: Option<Duration>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TokenRole {
    /// Sees what runs, but neither specifications nor output
    Viewer,
    /// Also submits, stops, and sees all of a job
    #[default]
    Submitter,
    /// Also manages tokens of its namespaces
    Owner,
    /// Scrapes metrics, and nothing else; the only tokens that agents accept
    Monitor,
    /// Manages nodes, and is a viewer of every namespace
    Operator,
    /// Everything
    Admin,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NamespaceCommand {
    /// List the namespaces that you see
    #[command(visible_alias = "ls")]
    List(OutputArgs),
    /// Show a namespace
    Describe {
        /// Name of the namespace
        name: String,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create a namespace, or change it; kinds that are left out are not restricted
    Put(Box<NamespacePutArgs>),
    /// Delete namespaces that have no jobs
    Delete {
        /// Names of the namespaces
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct NamespacePutArgs {
    /// Name of the namespace
    pub(crate) name: String,
    /// What it is for
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(crate) description: String,
    /// Engines that its jobs may use, separated by commas; '' for none
    #[arg(long, value_name = "WORDS")]
    pub(crate) engines: Option<String>,
    /// Networks that its jobs may use
    #[arg(long, value_name = "WORDS")]
    pub(crate) networks: Option<String>,
    /// Types of input sources that its jobs may use
    #[arg(long, value_name = "WORDS")]
    pub(crate) sources: Option<String>,
    /// Publishers that its jobs may use
    #[arg(long, value_name = "WORDS")]
    pub(crate) publishers: Option<String>,
    /// Registries from which its jobs may use images, like 'docker.io,registry.example.com:5000'
    #[arg(long, value_name = "HOSTS")]
    pub(crate) registries: Option<String>,
    /// Give root in the containers of its jobs no capabilities
    #[arg(long)]
    pub(crate) no_capabilities: bool,
    /// The only nodes that run its jobs, by labels that admins give, like 'pool in (a,b)'
    #[arg(long, default_value = "", value_name = "SELECTOR")]
    pub(crate) nodes: String,
    /// The highest priority of its jobs, 0 to 100 [default: 50 where credentials are required,
    /// otherwise 100]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_priority: Option<u32>,
    #[command(flatten)]
    pub(crate) quota: QuotaArgs,
    /// Its part of the cluster where several namespaces wait, next to the weights of the others, 1 to
    /// 1000 [default: 1]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) weight: Option<u32>,
}

/// What the live jobs of the namespace may hold together; without a flag, no bound
#[derive(Debug, Args)]
pub(crate) struct QuotaArgs {
    /// CPU that its executions may hold together, like '16' or '500m'
    #[arg(long = "quota-cpu", value_name = "CORES")]
    pub(crate) cpu: Option<String>,
    /// Memory that its executions may hold together, like '64GB'
    #[arg(long = "quota-memory", value_name = "BYTES")]
    pub(crate) memory: Option<String>,
    /// GPUs that its executions may hold together
    #[arg(long = "quota-gpu", value_name = "NUMBER")]
    pub(crate) gpu: Option<String>,
    /// Executions that may be live at the same time
    #[arg(long = "quota-executions", value_name = "NUMBER")]
    pub(crate) executions: Option<u32>,
    /// Executions that may wait; a submission beyond that is refused
    #[arg(long = "quota-queued", value_name = "NUMBER")]
    pub(crate) queued: Option<u32>,
}

// === impl TokenRole ===

impl TokenRole {
    /// The role, as the service spells it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Submitter => "submitter",
            Self::Owner => "owner",
            Self::Monitor => "monitor",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    pub(crate) const fn is_of_the_cluster(self) -> bool {
        matches!(self, Self::Monitor | Self::Operator | Self::Admin)
    }
}
