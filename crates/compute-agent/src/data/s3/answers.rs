//! What a bucket answers, in words, and whose fault it is.

use std::error::Error;
use std::path::Path as FilePath;

use agent_core::execution::Failure;
use object_store::path::{self, Path};

use super::words::words;
use super::{Bucket, Signs};
use crate::data::egress::addresses::Forbidden;
use crate::data::omitted::shown;
use crate::data::retry::AttemptError;

// === impl Bucket ===

impl Bucket {
    /// Describes an error about a key; the store has already retried.
    pub(crate) fn attempt_error(&self, key: &str, error: &object_store::Error) -> AttemptError {
        use object_store::Error as E;
        let mut cause: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(inner) = cause {
            if let Some(forbidden) = inner.downcast_ref::<Forbidden>() {
                return AttemptError::permanent(forbidden.to_string());
            }
            cause = inner.source();
        }
        let Self { name, endpoint, .. } = self;
        if let Some((key, reason)) = unusable(error) {
            return self.unusable_key(key, reason);
        }
        let message = match error {
            E::NotFound { .. } if words(error).contains("NoSuchBucket") => {
                format!("there is no bucket '{name}' at {endpoint}; check Bucket and Endpoint")
            }
            E::NotFound { .. } => format!(
                "there is no object '{key}' in bucket '{name}' at {endpoint}; check Key and VersionID"
            ),
            E::PermissionDenied { .. } | E::Unauthenticated { .. }
                if self.signs == Signs::WithCredentials =>
            {
                format!(
                    "'{key}' in bucket '{name}' at {endpoint} is not open to the credentials '{}': {}",
                    self.credential,
                    words(error)
                )
            }
            E::PermissionDenied { .. } | E::Unauthenticated { .. } if self.signs == Signs::Not => {
                format!(
                    "'{key}' in bucket '{name}' at {endpoint} is not open to everybody, and this \
                 node's credentials are not for an endpoint that a job names; its operator can \
                 list it in s3.endpoints, or the job can name Credentials: {}",
                    words(error)
                )
            }
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => format!(
                "'{key}' in bucket '{name}' at {endpoint} is not open to this node; check the \
                 AWS_… variables of its agent: {}",
                words(error)
            ),
            E::Precondition { .. } => {
                format!("object '{key}' in bucket '{name}' changed during the download")
            }
            _ => format!("'{key}' in bucket '{name}' at {endpoint}: {}", words(error)),
        };
        AttemptError::of_store(error, message)
    }

    /// A key that cannot be that of a file: every node would say the same.
    pub(crate) fn unusable_key(&self, key: &str, reason: &str) -> AttemptError {
        AttemptError::Permanent(Failure::task(format!(
            "the object '{}' in bucket '{}' at {} cannot be a file: {reason}; rename it, or choose a \
             longer prefix",
            shown(FilePath::new(key)),
            self.name,
            self.endpoint,
        )))
    }

    /// A key in the form that the store uses.
    pub(crate) fn path(&self, key: &str) -> Result<Path, AttemptError> {
        Path::parse(key).map_err(|error| {
            let message = format!("Key '{key}' is invalid: {}", words(&error));
            AttemptError::Permanent(Failure::task(message))
        })
    }
}

/// The key that an answer contains and no path can have, and why.
fn unusable(error: &object_store::Error) -> Option<(&str, &'static str)> {
    let object_store::Error::InvalidPath { source } = error else { return None };
    match source {
        path::Error::EmptySegment { path } => Some((path, "it has an empty part between slashes")),
        path::Error::BadSegment { path, .. } => Some((path, "it has a part that no path may have")),
        path::Error::NonUnicode { path, .. } => Some((path, "it is not UTF-8")),
        _ => None,
    }
}
