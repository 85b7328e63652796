//! Input sources and result paths of a task.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::engine::{Params, UnknownWord, words};

words!(
    /// Where an input comes from.
    SourceType, "an input source", {
        Inline = "inline",
        UrlDownload = "urldownload",
        LocalDirectory = "localdirectory",
        S3 = "s3",
        RepoClone = "repoclone",
        RepoCloneLfs = "repoclonelfs",
        Ipfs = "ipfs",
    }
);

/// `Source` of an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SourceSpec {
    #[serde(rename = "Type")]
    pub source_type: SourceType,
    #[serde(rename = "Params", default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub params: Params,
}

/// One element of `InputSources`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct InputSource {
    pub source: SourceSpec,
    /// Absolute path at which the task sees the input; empty for a module of a wasm program.
    #[serde(default)]
    pub target: String,
    #[serde(default)]
    pub alias: String,
}

/// One element of `ResultPaths`: a directory or file of the task that is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase")]
pub struct ResultPath {
    /// Its directory in the published archive.
    pub name: String,
    /// Absolute path inside the task.
    pub path: String,
}

/// `Params` of an `inline` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct InlineParams {
    /// An RFC 2397 data URL; a gzip'd tar unpacks into a directory.
    #[serde(rename = "URL")]
    #[cfg_attr(feature = "openapi", schema(required = true, pattern = "^data:.*,"))]
    pub url: String,
}

/// `Params` of a `urldownload` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UrlParams {
    /// `http` or `https`.
    #[serde(rename = "URL")]
    #[cfg_attr(
        feature = "openapi",
        schema(required = true, pattern = "^[hH][tT][tT][pP][sS]?://[^/]")
    )]
    pub url: String,
}

/// `Params` of a `localdirectory` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct LocalDirectoryParams {
    /// Absolute path on the node, below one that its settings allow.
    #[cfg_attr(feature = "openapi", schema(required = true, pattern = "^/"))]
    pub source_path: String,
    /// Whether the task may write to it.
    pub read_write: bool,
}

/// `Params` of an `s3` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct S3SourceParams {
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub bucket: String,
    /// An object, or a prefix when it ends with `/` or `*`.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub key: String,
    pub region: String,
    /// Base URL of a service that speaks S3; empty for the node's own.
    pub endpoint: String,
    /// The version of the one object.
    #[serde(rename = "VersionID")]
    pub version_id: String,
    /// Base64 of the SHA-256 of the one object.
    #[serde(rename = "ChecksumSHA256")]
    pub checksum_sha256: String,
    /// A regular expression that must be found in the key of an object below a prefix.
    pub filter: String,
}

/// `Params` of a `repoclone` or `repoclonelfs` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct RepositoryParams {
    /// URL of the repository.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub repo: String,
    /// A branch, a tag or a whole commit id; empty for the repository's own default.
    #[serde(rename = "Ref")]
    pub reference: String,
}

/// `Params` of an `ipfs` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct IpfsParams {
    /// A content id, perhaps with a path below it.
    #[serde(rename = "CID")]
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub cid: String,
}
