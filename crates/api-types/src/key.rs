//! Keys of the cluster, without their secret parts.

use serde::{Deserialize, Serialize};

use crate::word::words;

words!(
    /// What a key is for.
    KeyPurpose, "a purpose of a key", {
        /// Signs the certificates of nodes and of the orchestrator.
        Ca = "ca",
        /// Encrypts secrets and credentials.
        Secrets = "secrets",
        /// Encrypts the other keys; it is a file, and in no backup of the state.
        Cluster = "cluster",
    }
);

words!(
    /// Whether a key is used for something new.
    KeyState, "a state of a key", {
        /// It is in use.
        Active = "active",
        /// Another has taken its place; it goes when nothing needs it any more.
        Retiring = "retiring",
    }
);

/// A key of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Key {
    pub purpose: KeyPurpose,
    /// Of a CA, the SHA-256 of its key, which clients and nodes pin.
    #[serde(rename = "ID")]
    pub id: String,
    pub state: KeyState,
    /// RFC 3339, UTC; empty where it is not known.
    pub create_time: String,
    /// Of a CA that is retiring: when the last certificate that it signed expires. RFC 3339, UTC;
    /// empty otherwise.
    pub last_expiry: String,
    /// Of a CA: how many nodes have their newest certificate of it. One that is retiring is trusted
    /// for as long as there are any. `null` for other keys.
    pub nodes: Option<usize>,
}

/// Response of List Keys and Rotate Key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListKeys {
    pub keys: Vec<Key>,
}

/// The body of Rotate Key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct RotateKey {
    /// Which key another takes the place of.
    pub purpose: KeyPurpose,
}
