//! Input sources and result paths of a task.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

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
        Job = "job",
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

/// `Params` of a `job` source: the published results of a job that `DependsOn` names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "PascalCase", default)]
pub struct JobSourceParams {
    /// The ID of the job.
    #[serde(rename = "JobID")]
    pub job_id: String,
    /// Instead of `JobID`: its name in the graph that both belong to. The service adds the name of a
    /// job that `JobID` names.
    pub job: String,
    /// A file or directory of the results; all of them when absent.
    pub path: String,
    /// The index whose results these are.
    pub index: ResultIndex,
}

/// Of which indexes of a job an input has the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultIndex {
    /// Of all, each in a directory that is named after the index.
    #[default]
    All,
    /// Of the index of the execution itself.
    Same,
    One(u32),
}

// === impl ResultIndex ===

impl ResultIndex {
    /// The word for the index of the execution itself.
    pub const SAME: &str = "Same";

    /// What people write; none if it is no index.
    pub fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Null => Some(Self::All),
            Value::String(word) if word.eq_ignore_ascii_case(Self::SAME) => Some(Self::Same),
            Value::Number(number) => Some(Self::One(number.as_u64()?.try_into().ok()?)),
            Value::Bool(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// The one index, in an execution of this index.
    pub fn of_execution(self, own: u32) -> Option<u32> {
        match self {
            Self::All => None,
            Self::Same => Some(own),
            Self::One(index) => Some(index),
        }
    }
}

impl Serialize for ResultIndex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_none(),
            Self::Same => serializer.serialize_str(Self::SAME),
            Self::One(index) => serializer.serialize_u32(*index),
        }
    }
}

impl<'de> Deserialize<'de> for ResultIndex {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Self::read(&value).ok_or_else(|| D::Error::custom("neither an index nor 'Same'"))
    }
}

// === impl InputSource ===

impl InputSource {
    /// Which results of which job the input is, if it is some.
    pub fn job_results(&self) -> Option<JobSourceParams> {
        let SourceSpec { source_type, params } = &self.source;
        let params = (*source_type == SourceType::Job).then(|| params.clone())?;
        serde_json::from_value(params.into()).ok()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for ResultIndex {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        crate::openapi::schema::schema(serde_json::json!({
            "description": "A number, or `Same` for the index of the execution itself; the results \
                            of all indexes when absent.",
            "oneOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "string", "enum": [Self::SAME] },
                { "type": "null" },
            ],
        }))
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for ResultIndex {}
