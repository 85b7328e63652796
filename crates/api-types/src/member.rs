//! The orchestrators that share a store.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::word::words;

words!(
    /// Where the state of the service is.
    StoreKind, "a kind of store", {
        /// In the data directory of the only orchestrator.
        Sqlite = "sqlite",
        /// In a database that several orchestrators may share.
        Postgres = "postgres",
    }
);

words!(
    /// Who reaches an orchestrator, and how.
    MemberExposure, "an exposure", {
        /// Every program on its machine, over plain HTTP.
        Loopback = "loopback",
        /// Other machines, over plain HTTP.
        Insecure = "insecure",
        /// Other machines, over TLS and with credentials.
        Protected = "protected",
    }
);

/// Response of List Members.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListMembers {
    pub store: MemberStore,
    /// Differs after each takeover; empty with SQLite.
    pub term: String,
    /// How often an orchestrator took the lead over, since the database was made.
    pub takeovers: u64,
    /// How often a promoted database had lost commits that were acknowledged.
    pub times_went_back: u64,
    /// In order of their IDs; those that have not been seen for a week are forgotten.
    pub members: Vec<Member>,
}

/// The store that the orchestrators share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct MemberStore {
    pub kind: StoreKind,
    /// Names the server, its timeline and the tables: another value after a promotion or a restore.
    /// Empty with SQLite.
    pub server: String,
}

/// An orchestrator of the cluster, as it describes itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Member {
    #[serde(rename = "ID")]
    pub id: NodeId,
    /// The `host:port` that the other orchestrators dial.
    pub address: String,
    pub leads: bool,
    /// Whether it leads, or could take the lead over. One that was last seen more than 30 seconds ago
    /// is not ready.
    pub ready: bool,
    /// By the database's clock, RFC 3339, UTC.
    pub last_seen: String,
    pub exposure: MemberExposure,
    /// Names and addresses under which clients and nodes reach it.
    pub names: Vec<String>,
    /// Its version.
    pub release: String,
    /// The format of the data that it writes.
    pub format: u32,
    /// The IDs of the cluster keys in its files: the one in use, and the next.
    pub cluster_keys: Vec<String>,
    /// A digest of the settings that must be equal.
    pub settings: String,
    /// Of these settings, those that differ from the leader's.
    pub different_settings: Vec<String>,
}
