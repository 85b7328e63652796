//! Secrets: values that jobs refer to by name.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::id::ExecutionId;

/// The directory in which a task finds a secret that names no other place.
pub const SECRETS_DIRECTORY: &str = "/run/secrets";

/// The most bytes of a value.
pub const MAX_SECRET_BYTES: usize = 32 << 10;

/// A secret of its namespace, as a task receives it: in a file, or in an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct TaskSecret {
    pub name: String,
    /// The absolute path of the file; empty for a secret in the environment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The name of the variable; empty for a secret in a file.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub env: String,
}

/// A secret without its value, which no answer to a user contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Secret {
    pub name: String,
    pub namespace: String,
    /// Counts the values that it has had, from 1.
    pub version: u64,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC.
    pub modify_time: String,
}

/// The body of Put Secret: the value, as text or as bytes.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct PutSecret {
    /// The value as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// The value in base64, for bytes that are no text; instead of `Value`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

/// Response of List Secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListSecrets {
    pub secrets: Vec<Secret>,
}

/// Response of Describe, Put and Delete Secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeSecret {
    pub secret: Secret,
}

/// `POST …/nodes/:nodeID/secrets`: a node asks for the secrets of an execution that it is about to
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SecretsRequest {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
}

/// The answer to it, in the order of the task's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SecretsAnswer {
    pub secrets: Vec<SecretValue>,
}

/// The value of one secret, on its way to a task.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct SecretValue {
    pub name: String,
    pub version: u64,
    /// In base64.
    pub data: String,
}

// === impl TaskSecret ===

impl TaskSecret {
    /// Where a task that says nothing else finds the secret.
    pub fn default_path(name: &str) -> String {
        format!("{SECRETS_DIRECTORY}/{name}")
    }
}

// === impl PutSecret ===

impl PutSecret {
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self { value: None, data: Some(STANDARD.encode(bytes)) }
    }
}

impl fmt::Debug for PutSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PutSecret").finish_non_exhaustive()
    }
}

// === impl SecretValue ===

impl SecretValue {
    pub fn new(name: String, version: u64, bytes: &[u8]) -> Self {
        Self { name, version, data: STANDARD.encode(bytes) }
    }

    /// The value itself; `None` if it is not base64.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        STANDARD.decode(&self.data).ok()
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, version, .. } = self;
        f.debug_struct("SecretValue")
            .field("name", name)
            .field("version", version)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_reads_back_and_is_never_shown() {
        let value = SecretValue::new("db".to_owned(), 3, b"pa\0ss");
        assert_eq!(value.bytes().unwrap(), b"pa\0ss");
        let put = PutSecret { value: Some("pa55".to_owned()), data: None };
        assert!(!format!("{value:?} {put:?}").contains("pa"), "{value:?}");
    }
}
