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
pub struct SourceSpec {
    #[serde(rename = "Type")]
    pub source_type: SourceType,
    #[serde(rename = "Params", default)]
    pub params: Params,
}

/// One element of `InputSources`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[serde(rename_all = "PascalCase")]
pub struct ResultPath {
    /// Its directory in the published archive.
    pub name: String,
    /// Absolute path inside the task.
    pub path: String,
}

/// `Params` of an `inline` source.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InlineParams {
    /// An RFC 2397 data URL; a gzip'd tar unpacks into a directory.
    #[serde(rename = "URL")]
    pub url: String,
}
