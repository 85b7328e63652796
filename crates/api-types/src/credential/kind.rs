//! What credentials are for.

use crate::source::SourceType;
use crate::word::words;

words!(
    /// What credentials are for.
    CredentialType, "a type of credentials", {
        /// Images.
        Registry = "registry",
        /// Inputs and results in buckets.
        S3 = "s3",
        /// Repositories.
        Git = "git",
        /// Downloads.
        Http = "http",
    }
);

// === impl CredentialType ===

impl CredentialType {
    /// The type that a source signs in with, if it does.
    pub const fn of_source(source: SourceType) -> Option<Self> {
        match source {
            SourceType::UrlDownload => Some(Self::Http),
            SourceType::S3 => Some(Self::S3),
            SourceType::RepoClone | SourceType::RepoCloneLfs => Some(Self::Git),
            SourceType::Inline
            | SourceType::LocalDirectory
            | SourceType::Ipfs
            | SourceType::Job => None,
        }
    }
}
