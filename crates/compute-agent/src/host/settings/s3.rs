//! `[s3]`, and the variables that hold credentials for S3.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::values;

/// The prefix of the variables for S3.
const AWS_VARIABLES: &str = "AWS_";

/// Variables by name; their values are secret.
#[derive(Clone, Default)]
pub struct AwsVariables(pub BTreeMap<String, String>);

/// Where jobs may use the credentials of the `AWS_…` variables.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Settings {
    /// Endpoint URLs that jobs may name, in addition to the variables'; requests to any other are
    /// not signed.
    #[serde(deserialize_with = "values::list")]
    pub endpoints: Vec<String>,
    /// Buckets at these endpoints; a name may end with `*`.
    #[serde(deserialize_with = "values::list")]
    pub buckets: Vec<String>,
}

// === impl S3Settings ===

impl S3Settings {
    pub(crate) fn allows_bucket(&self, bucket: &str) -> bool {
        self.buckets.iter().any(|listed| match listed.strip_suffix('*') {
            Some(prefix) => bucket.starts_with(prefix),
            None => bucket == listed,
        })
    }
}

impl Default for S3Settings {
    /// All buckets that the operator's credentials open.
    fn default() -> Self {
        Self { endpoints: Vec::new(), buckets: vec!["*".to_owned()] }
    }
}

// === impl AwsVariables ===

impl AwsVariables {
    pub(super) fn of_this_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let all = std::env::vars_os().filter_map(text);
        Self(all.filter(|(name, _)| name.starts_with(AWS_VARIABLES)).collect())
    }
}

impl std::fmt::Debug for AwsVariables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
