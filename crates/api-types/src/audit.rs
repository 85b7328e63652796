//! The audit log: who changed what, and who was refused, each record sealed by its hash.
//!
//! It is two chains, because a chain can only lose its oldest records: what everyone does often must
//! not push out what is rare and matters for long.

use serde::{Deserialize, Serialize};

use crate::word::words;

words!(
    /// What became of a request.
    AuditOutcome, "an outcome", {
        /// It was carried out.
        Done = "done",
        /// The caller may not do this.
        Denied = "denied",
    }
);

words!(
    /// The chain that a record belongs to.
    AuditChain, "a chain of the audit log", {
        /// Changes of tokens, namespaces, secrets, credentials, keys and nodes.
        Changes = "changes",
        /// Everything else: submissions and stops, sign-ins, secrets handed to nodes, denials.
        Rest = "rest",
    }
);

/// A record of the audit log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct AuditRecord {
    /// Records of a release with one chain belong to that of changes.
    #[serde(default = "AuditChain::first")]
    pub chain: AuditChain,
    /// Counts the records of the chain, from 1 and without a gap.
    pub sequence: u64,
    /// RFC 3339, UTC.
    pub time: String,
    /// The name of the token.
    pub user: String,
    #[serde(rename = "TokenID")]
    pub token_id: String,
    /// Where the request came from.
    pub address: String,
    /// The ID of the operation in the OpenAPI document.
    pub operation: String,
    /// What it was done to: the path of the request, or the ID that it made; of submissions that
    /// were committed together the IDs of all jobs, with spaces between.
    pub object: String,
    #[serde(rename = "RequestID")]
    pub request_id: String,
    pub outcome: AuditOutcome,
    /// How many requests the record stands for: repeats within a minute are one record, and so are
    /// submissions that were committed together.
    pub count: u64,
    /// The hash of the record before it in the chain; empty for the first.
    pub previous: String,
    /// SHA-256 of [`AuditRecord::sealed_text`], in hexadecimal digits.
    pub hash: String,
}

/// Response of List Audit Records.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListAudit {
    pub records: Vec<AuditRecord>,
    pub next_token: String,
}

// === impl AuditChain ===

impl AuditChain {
    /// The only one of older releases.
    pub const fn first() -> Self {
        Self::Changes
    }
}

// === impl AuditRecord ===

impl AuditRecord {
    /// What the hash seals: every field but the hash, each on a separate line as JSON.
    pub fn sealed_text(&self) -> String {
        let Self {
            chain,
            sequence,
            time,
            user,
            token_id,
            address,
            operation,
            object,
            request_id,
            outcome,
            count,
            previous,
            hash: _,
        } = self;
        let texts: [&str; 9] = [
            time,
            user,
            token_id,
            address,
            operation,
            object,
            request_id,
            outcome.as_str(),
            previous,
        ];
        // Records of changes are sealed as they were when there was one chain.
        let mut sealed = match chain {
            AuditChain::Changes => String::new(),
            AuditChain::Rest => format!("{chain}\n"),
        };
        sealed.push_str(&format!("{sequence}\n{count}\n"));
        for text in texts {
            // JSON escapes line breaks, so that no text can pass for two.
            sealed.push_str(&serde_json::Value::from(text.to_owned()).to_string());
            sealed.push('\n');
        }
        sealed
    }
}
