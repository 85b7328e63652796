//! Arguments of `jobctl audit …`.

use std::str::FromStr;

use api_types::audit::AuditChain;
use clap::{Args, Subcommand};

use super::jobs::absolute_time;
use super::shared::OutputArgs;

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// List who changed what and who was denied, newest first
    #[command(visible_alias = "ls")]
    List(AuditListArgs),
    /// Check that no record of either chain was changed or removed
    Verify {
        /// A record as an earlier verification printed it, like changes:7:HASH; repeat it for several
        #[arg(long, value_name = "[CHAIN:]SEQUENCE:HASH")]
        expect: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditListArgs {
    /// The chain: changes (tokens, namespaces, secrets, credentials, keys, nodes), or the rest
    /// (submissions, stops, sign-ins, secrets handed to nodes, denials)
    #[arg(long, value_name = "CHAIN", default_value = "changes", value_parser = AuditChain::from_str)]
    pub(crate) chain: AuditChain,
    /// Only what this user did
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Only this operation, like stopJob
    #[arg(long, value_name = "OPERATION")]
    pub(crate) operation: Option<String>,
    /// Only records since then: 10m, 2h, or a time in RFC 3339
    #[arg(long, value_name = "WHEN")]
    since: Option<String>,
    /// Maximum number of records
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) limit: u32,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

// === impl AuditListArgs ===

impl AuditListArgs {
    pub(crate) fn since(&self, now: api_types::Timestamp) -> Option<String> {
        self.since.as_deref().map(|text| absolute_time(text, now))
    }
}
