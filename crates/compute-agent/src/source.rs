//! Where the inputs of a task come from: one contract, several kinds.
//!
//! An input is fetched to a place below the execution's directory, and mounted at its Target,
//! read-only unless it is the node's own and the task asks for more. Fetching may be repeated
//! after a crash: it begins anew. All of it happens before the execution's clock starts.

mod cache;
mod inline;
mod ipfs;
mod local_directory;
mod place;
mod repository;
mod s3;
mod url_download;

use std::path::PathBuf;
use std::sync::Arc;

use api_types::source::{InputSource, SourceType};
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;

use crate::attempts::{Patience, Setback};
use crate::data_dir::{ExecutionDir, remove_all};
use crate::disk::{self, Disk, LimitedBy};
use crate::execution::Failure;
use crate::executor::MountedInput;
use crate::kubo::Kubo;
use crate::observer;
use crate::progress::Progress;
use crate::s3::Buckets;
use crate::settings::Settings;
use crate::web::Web;
use crate::web::addresses::Reach;

use cache::Cache;
use inline::Inline;
use ipfs::Ipfs;
use local_directory::LocalDirectory;
use place::{Place, Quota, check_file_name};
use repository::{LargeFiles, Programs, Repository};
use s3::S3;
use url_download::UrlDownload;

pub(crate) trait Source: Send + Sync {
    /// Why this input cannot be had, from its specification alone.
    fn admit(&self, input: &InputSource) -> Result<(), String>;

    /// Brings the input to its place, and tells what to mount. A source tries again by itself
    /// what may pass; what it answers with is final.
    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, Setback>>;
}

/// One input on its way.
#[derive(Debug, Clone)]
pub(crate) struct Fetch<'a> {
    pub(crate) input: &'a InputSource,
    pub(crate) place: Place,
    /// What this input and the others of its task may have in all.
    pub(crate) quota: Arc<Quota>,
    pub(crate) cache: &'a Cache,
}

/// The kinds that work on this node.
#[derive(Debug)]
pub(crate) struct Sources {
    inline: Inline,
    url_download: UrlDownload,
    local_directory: Option<LocalDirectory>,
    s3: Option<S3>,
    repository: Option<Repository>,
    repository_lfs: Option<Repository>,
    ipfs: Option<Ipfs>,
    cache: Cache,
    /// What the inputs of a task that asks for no disk may have.
    max_bytes: u64,
    disk: Disk,
}

// === impl Sources ===

impl Sources {
    /// What the settings and the machine allow; what is fetched may be kept in `cache`.
    pub(crate) fn new(settings: &Settings, cache: PathBuf) -> Self {
        Self::with_programs(settings, cache, Programs::of_this_machine())
    }

    fn with_programs(settings: &Settings, cache: PathBuf, programs: Programs) -> Self {
        let web = Web::new(Reach::of(settings));
        let repository = |large_files| Repository {
            web: web.clone(),
            local: LocalDirectory::new(&settings.allow_local_paths),
            large_files,
            patience: Patience::NETWORK,
        };
        let ipfs = Kubo::new(&settings.ipfs.api).map(|kubo| Ipfs::new(kubo, Patience::NETWORK));
        Self {
            inline: Inline,
            ipfs,
            repository: programs.git.then(|| repository(LargeFiles::Left)),
            repository_lfs: programs.git_lfs.then(|| repository(LargeFiles::Fetched)),
            s3: Buckets::new(&settings.aws, web.clone(), Patience::NETWORK).map(S3::new),
            url_download: UrlDownload::new(web, Patience::NETWORK),
            local_directory: LocalDirectory::new(&settings.allow_local_paths),
            // The cache lies in the data directory, which is there.
            disk: Disk::new(cache.parent().unwrap_or(&cache), settings.disk.reserve_bytes),
            cache: Cache::new(cache, settings.inputs.cache_bytes),
            max_bytes: settings.inputs.max_bytes,
        }
    }

    pub(crate) fn offered(&self) -> Vec<SourceType> {
        SourceType::ALL.iter().copied().filter(|kind| self.get(*kind).is_some()).collect()
    }

    pub(crate) fn get(&self, kind: SourceType) -> Option<&dyn Source> {
        fn some(source: &impl Source) -> &dyn Source {
            source
        }
        match kind {
            SourceType::Inline => Some(&self.inline),
            SourceType::UrlDownload => Some(&self.url_download),
            SourceType::LocalDirectory => self.local_directory.as_ref().map(some),
            SourceType::S3 => self.s3.as_ref().map(some),
            SourceType::RepoClone => self.repository.as_ref().map(some),
            SourceType::RepoCloneLfs => self.repository_lfs.as_ref().map(some),
            SourceType::Ipfs => self.ipfs.as_ref().map(some),
        }
    }

    /// Why this node cannot bring this input, from its specification alone.
    pub(crate) fn admit(&self, input: &InputSource) -> Result<(), String> {
        let Some(source) = self.get(input.source.source_type) else {
            let offered: Vec<_> = self.offered().iter().map(ToString::to_string).collect();
            return Err(format!("not supported on this node; supported: {}", offered.join(", ")));
        };
        if !input.alias.is_empty() {
            check_file_name(&input.alias).map_err(|reason| format!("its Alias {reason}"))?;
        }
        source.admit(input)
    }

    /// Fetches all that a task needs, one after the other, and tells how far it is when that takes
    /// long; `disk_bytes` is what the task asked for, if anything.
    pub(crate) async fn fetch_all(
        &self,
        inputs: &[InputSource],
        disk_bytes: u64,
        dir: &ExecutionDir,
        progress: &Progress,
    ) -> Result<Vec<MountedInput>, Failure> {
        let quota = Arc::new(match disk_bytes {
            0 => Quota::new(self.max_bytes, LimitedBy::Node, self.disk.clone()),
            disk_bytes => Quota::new(disk_bytes, LimitedBy::Task, self.disk.clone()),
        });
        let mut mounted = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let kind = input.source.source_type;
            let name = format!("input {index} ({kind}, for '{}')", input.target);
            let before_bytes = quota.taken_bytes();
            let how_far = || format!("fetching {name}: {}", quota.how_far(before_bytes));
            let fetching = self.fetch_one(index, input, &quota, dir);
            let mut fetched = progress.during(fetching, how_far).await;
            // What was kept for later goes before a task has to.
            if fetched.is_err() && self.disk.shortage().is_some() && self.cache.make_room().await {
                quota.give_back(quota.taken_bytes().saturating_sub(before_bytes));
                fetched = progress.during(self.fetch_one(index, input, &quota, dir), how_far).await;
            }
            mounted.push(fetched.map_err(|failure| Failure {
                message: format!("{name}: {}", failure.message),
                ..failure
            })?);
        }
        Ok(mounted)
    }

    async fn fetch_one(
        &self,
        index: usize,
        input: &InputSource,
        quota: &Arc<Quota>,
        dir: &ExecutionDir,
    ) -> Result<MountedInput, Failure> {
        let source = self
            .get(input.source.source_type)
            .ok_or_else(|| Failure::node("not supported on this node"))?;
        let root = dir.input(index);
        remove_all(&root)
            .and_then(|()| std::fs::create_dir_all(&root))
            .map_err(|error| disk::failure(&error))?;
        let place = Place::new(root, input);
        let fetch = Fetch { input, place, quota: Arc::clone(quota), cache: &self.cache };
        observer::fetch(input.source.source_type, index, || quota.taken_bytes(), async {
            source.fetch(fetch).await.map_err(|setback| match setback {
                Setback::Lasting(failure) | Setback::Passing(failure) => failure,
            })
        })
        .await
    }
}

/// The `Params` of an input, as its type has them.
fn params<T: DeserializeOwned>(input: &InputSource) -> Result<T, String> {
    serde_json::from_value(input.source.params.clone().into())
        .map_err(|error| format!("its Params cannot be read: {error}"))
}

#[cfg(test)]
mod contract;
