//! Where the inputs of a task come from: one contract, several kinds.
//!
//! An input is fetched to a place below the execution's directory, and mounted read-only at its
//! Target. Fetching may be repeated after a crash: it begins anew.

mod inline;

use std::path::Path;

use api_types::source::{InputSource, SourceType};
use futures_util::future::BoxFuture;

use crate::data_dir::{ExecutionDir, remove_all};
use crate::execution::Failure;
use crate::executor::MountedInput;

pub(crate) use inline::Inline;

pub(crate) trait Source: Send + Sync {
    /// Why this input cannot be had, from its specification alone.
    fn admit(&self, input: &InputSource) -> Result<(), String>;

    /// Brings the input below `place`, an empty directory, and tells what to mount.
    fn fetch<'a>(
        &'a self,
        input: &'a InputSource,
        place: &'a Path,
    ) -> BoxFuture<'a, Result<MountedInput, Failure>>;
}

/// The kinds of this build.
#[derive(Debug, Default)]
pub(crate) struct Sources {
    inline: Inline,
}

// === impl Sources ===

impl Sources {
    pub(crate) fn offered(&self) -> Vec<SourceType> {
        [
            SourceType::Inline,
            SourceType::UrlDownload,
            SourceType::LocalDirectory,
            SourceType::S3,
            SourceType::RepoClone,
            SourceType::RepoCloneLfs,
            SourceType::Ipfs,
        ]
        .into_iter()
        .filter(|kind| self.get(*kind).is_some())
        .collect()
    }

    pub(crate) fn get(&self, kind: SourceType) -> Option<&dyn Source> {
        match kind {
            SourceType::Inline => Some(&self.inline),
            SourceType::UrlDownload
            | SourceType::LocalDirectory
            | SourceType::S3
            | SourceType::RepoClone
            | SourceType::RepoCloneLfs
            | SourceType::Ipfs => None,
        }
    }

    /// Fetches all inputs of a task, one after the other.
    pub(crate) async fn fetch_all(
        &self,
        inputs: &[InputSource],
        dir: &ExecutionDir,
    ) -> Result<Vec<MountedInput>, Failure> {
        let mut mounted = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let kind = input.source.source_type;
            let named = |reason: String| {
                Failure::node(format!("input {index} ({kind}, for '{}'): {reason}", input.target))
            };
            let source =
                self.get(kind).ok_or_else(|| named("not supported on this node".to_owned()))?;
            let place = dir.input(index);
            remove_all(&place)
                .and_then(|()| std::fs::create_dir_all(&place))
                .map_err(|error| named(format!("its place on the node: {error}")))?;
            let input = source.fetch(input, &place).await.map_err(|failure| Failure {
                message: named(failure.message).message,
                cause: failure.cause,
            })?;
            mounted.push(input);
        }
        Ok(mounted)
    }
}
