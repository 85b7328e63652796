//! The version record.

use serde::{Deserialize, Serialize};

/// Identifies a build; `docs/api.md`, "Version record".
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct VersionRecord {
    #[serde(rename = "Major")]
    pub major: String,
    #[serde(rename = "Minor")]
    pub minor: String,
    #[serde(rename = "GitVersion")]
    pub git_version: String,
    #[serde(rename = "GitCommit")]
    pub git_commit: String,
    /// ISO 8601, UTC.
    #[serde(rename = "BuildDate")]
    pub build_date: String,
    #[serde(rename = "GOOS")]
    pub goos: String,
    #[serde(rename = "GOARCH")]
    pub goarch: String,
}

impl VersionRecord {
    /// The record of this build.
    pub fn current() -> Self {
        Self {
            major: env!("CARGO_PKG_VERSION_MAJOR").to_owned(),
            minor: env!("CARGO_PKG_VERSION_MINOR").to_owned(),
            git_version: format!("v{}", env!("CARGO_PKG_VERSION")),
            git_commit: env!("BUILD_GIT_COMMIT").to_owned(),
            build_date: env!("BUILD_DATE").to_owned(),
            goos: std::env::consts::OS.to_owned(),
            goarch: match std::env::consts::ARCH {
                "x86_64" => "amd64",
                "aarch64" => "arm64",
                other => other,
            }
            .to_owned(),
        }
    }
}
