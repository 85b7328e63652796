//! Input sources and result paths of a task.

use serde::{Deserialize, Serialize};

use crate::engine::Params;
use crate::word::words;

words!(
    /// The kind of an input source.
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
    /// Absolute path of the input inside the task; empty for a wasm module.
    #[serde(default)]
    pub target: String,
    #[serde(default)]
    pub alias: String,
}

/// One element of `ResultPaths`: a directory or file of the task to publish.
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
    /// Credentials of the job's namespace to sign in with.
    #[serde(rename = "Credentials")]
    pub credentials: String,
}

/// `Params` of a `localdirectory` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct LocalDirectoryParams {
    /// Absolute path on the node, below a directory that its settings allow.
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
    /// Base URL of an S3-compatible service; empty for the node's own, or with credentials for
    /// Amazon's.
    pub endpoint: String,
    /// The version of the one object.
    #[serde(rename = "VersionID")]
    pub version_id: String,
    /// Base64 of the SHA-256 of the one object.
    #[serde(rename = "ChecksumSHA256")]
    pub checksum_sha256: String,
    /// A regular expression; objects below a prefix whose keys do not match are skipped.
    pub filter: String,
    /// Credentials of the job's namespace to sign in with.
    pub credentials: String,
}

/// `Params` of a `repoclone` or `repoclonelfs` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct RepositoryParams {
    /// URL of the repository.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub repo: String,
    /// A branch, a tag or a full commit id; empty for the repository's default.
    #[serde(rename = "Ref")]
    pub reference: String,
    /// Credentials of the job's namespace to sign in with.
    pub credentials: String,
}

/// `Params` of an `ipfs` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct IpfsParams {
    /// A content id, optionally followed by a path.
    #[serde(rename = "CID")]
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub cid: String,
}
