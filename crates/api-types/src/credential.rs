//! Credentials of namespaces: what a job's images, inputs and publisher may sign in with, and where.
//!
//! A job names credentials, and no response to a user contains their login. The orchestrator checks
//! their hosts when a job is submitted, and the node checks them again for every connection.

mod kind;
mod named;
mod scope;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::ExecutionId;
use crate::text::is_control;

pub use kind::CredentialType;
pub use named::{CREDENTIALS, NamedCredential, Server};
pub use scope::{NotFor, Scope, check_host_pattern};

/// Credentials without their login, which no answer to a user contains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct Credential {
    pub name: String,
    pub namespace: String,
    #[serde(rename = "Type")]
    pub credential_type: CredentialType,
    /// The only hosts that get the login.
    pub hosts: Vec<String>,
    /// The only buckets, of type `s3`; all of the hosts' when empty.
    pub buckets: Vec<String>,
    /// Counts its changes, from 1.
    pub version: u64,
    /// RFC 3339, UTC.
    pub create_time: String,
    /// RFC 3339, UTC.
    pub modify_time: String,
}

/// The body of Put Credential.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct PutCredential {
    /// `registry`, `s3`, `git` or `http`.
    #[serde(rename = "Type")]
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = CredentialType))]
    pub credential_type: String,
    /// The hosts that get the login: `ghcr.io`, `git.example.com:8443`, or `*.example.com` for all
    /// below it.
    #[cfg_attr(feature = "openapi", schema(required = true, min_items = 1))]
    pub hosts: Vec<String>,
    /// For `s3`: the only buckets; all of the hosts' when empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub buckets: Vec<String>,
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub login: Login,
}

/// What a server asks for: of `registry` and `git` user name and password, of `http` the same or a
/// token, of `s3` a pair of keys.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct Login {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub username: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub password: String,
    /// Sent as `Authorization: Bearer …`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub token: String,
    #[serde(rename = "AccessKeyID", skip_serializing_if = "String::is_empty")]
    pub access_key_id: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub secret_access_key: String,
    /// Of temporary keys.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session_token: String,
}

/// Response of List Credentials.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ListCredentials {
    pub credentials: Vec<Credential>,
}

/// Response of Describe, Put and Delete Credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct DescribeCredential {
    pub credential: Credential,
}

/// `POST …/nodes/:nodeID/credentials`: a node asks for the credentials that an execution names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CredentialsRequest {
    #[serde(rename = "ExecutionID")]
    pub execution_id: ExecutionId,
    /// Only these of them; all, if it is empty.
    #[serde(rename = "Names", default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
}

/// The answer to it: each of them once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct CredentialsAnswer {
    pub credentials: Vec<CredentialValue>,
}

/// Credentials on their way to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct CredentialValue {
    pub name: String,
    #[serde(rename = "Type")]
    pub credential_type: CredentialType,
    pub hosts: Vec<String>,
    pub buckets: Vec<String>,
    pub version: u64,
    pub login: Login,
}

// === impl Login ===

impl Login {
    /// The fields that the type needs and lacks, and those that it does not take.
    pub fn problems(&self, of: CredentialType) -> Vec<(&'static str, &'static str)> {
        const REQUIRED: &str = "is required";
        let Self { username, password, token, access_key_id, secret_access_key, session_token } =
            self;
        let is_bearer = of == CredentialType::Http && !token.is_empty();
        let of_user = of != CredentialType::S3 && !is_bearer;
        let of_keys = of == CredentialType::S3;
        let mut problems = Vec::new();
        for (field, value, is_needed, is_taken) in [
            ("Username", username, of_user, of_user),
            ("Password", password, of_user, of_user),
            ("Token", token, false, of == CredentialType::Http),
            ("AccessKeyID", access_key_id, of_keys, of_keys),
            ("SecretAccessKey", secret_access_key, of_keys, of_keys),
            ("SessionToken", session_token, false, of_keys),
        ] {
            match (value.is_empty(), is_needed, is_taken) {
                (true, true, _) => problems.push((field, REQUIRED)),
                (false, _, false) => problems.push((field, "does not belong to this Type")),
                (true, false, _) | (false, _, true) => {}
            }
            if value.chars().any(is_control) {
                problems.push((field, "must not contain control characters"));
            }
        }
        if username.contains(':') {
            problems.push(("Username", "must not contain ':'"));
        }
        problems
    }

    /// Bytes of the longest field.
    pub fn longest_bytes(&self) -> usize {
        let Self { username, password, token, access_key_id, secret_access_key, session_token } =
            self;
        [username, password, token, access_key_id, secret_access_key, session_token]
            .into_iter()
            .map(String::len)
            .max()
            .unwrap_or_default()
    }
}

/// Never with its values.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").finish_non_exhaustive()
    }
}

// === impl CredentialValue ===

impl CredentialValue {
    pub fn scope(&self) -> Scope<'_> {
        let Self { name, credential_type, hosts, buckets, .. } = self;
        Scope { name, credential_type: *credential_type, hosts, buckets }
    }
}

#[cfg(test)]
mod tests;
