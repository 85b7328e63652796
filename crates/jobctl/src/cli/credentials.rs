//! Arguments of `jobctl credential …`.

use std::path::PathBuf;

use api_types::credential::CredentialType;
use clap::{Args, Subcommand};

use super::shared::{NamespaceArgs, OutputArgs};

#[derive(Debug, Subcommand)]
pub(crate) enum CredentialCommand {
    /// List the credentials of a namespace
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create or replace credentials, with the password from a file or standard input
    Set(CredentialSetArgs),
    /// Show credentials; nothing shows their login
    Describe {
        /// Name of the credentials
        #[arg(value_name = "[NAMESPACE/]NAME")]
        name: String,
        #[command(flatten)]
        namespace: NamespaceArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete credentials; jobs that name them wait until they exist again
    Delete {
        /// Names of the credentials
        #[arg(required = true, value_name = "[NAMESPACE/]NAME")]
        names: Vec<String>,
        #[command(flatten)]
        namespace: NamespaceArgs,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "The password, token or secret key is one line of the file or of standard input; \
on a terminal it is asked for and not shown.

Examples:
  jobctl credential set prod/ghcr --type registry --host ghcr.io --username ci < token
  jobctl credential set git --type git --host git.example.com --username ci --file token
  jobctl credential set files --type http --host files.example.com < bearer-token
  jobctl credential set results --type s3 --host '*.amazonaws.com' --bucket results \\
      --access-key-id AKIAEXAMPLE --file secret-access-key
  jobctl run --credentials ghcr ghcr.io/example/private:1"
)]
pub(crate) struct CredentialSetArgs {
    /// Name of the credentials
    #[arg(value_name = "[NAMESPACE/]NAME")]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) namespace: NamespaceArgs,
    /// What they are for: registry, s3, git or http
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub(crate) credential_type: CredentialType,
    /// Host that gets the login: HOST, HOST:PORT or *.DOMAIN; may be repeated
    #[arg(long = "host", value_name = "HOST", required = true)]
    pub(crate) hosts: Vec<String>,
    /// The only buckets, of type s3; may be repeated
    #[arg(long = "bucket", value_name = "BUCKET")]
    pub(crate) buckets: Vec<String>,
    /// User name; without one, credentials of type http are a bearer token
    #[arg(short, long, value_name = "NAME")]
    pub(crate) username: Option<String>,
    /// ID of the access key, of type s3
    #[arg(long, value_name = "ID")]
    pub(crate) access_key_id: Option<String>,
    /// File with the token of a temporary access key, of type s3
    #[arg(long, value_name = "FILE")]
    pub(crate) session_token_file: Option<PathBuf>,
    /// File with the password, token or secret key; - for standard input
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}
