//! The inputs of a task: one contract, several source types.
//!
//! The agent fetches an input below the execution's directory and mounts it at its Target,
//! read-only unless the input belongs to the node and the task requests write access. A fetch is
//! repeatable after a crash: it starts again from the beginning. All fetching ends before the
//! execution's clock starts.

pub(crate) mod cache;
pub(crate) mod fetcher;
mod inline;
mod ipfs;
pub(crate) mod job;
mod local_directory;
pub(crate) mod placement;
pub(crate) mod repository;
mod s3;
pub(crate) mod source;
mod url_download;

use std::path::PathBuf;
use std::sync::Arc;

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::credential::CredentialValue;
use api_types::job_input::InputResults;
use api_types::protocol::Work;
use api_types::source::{InputSource, SourceType};
use futures_util::future::FutureExt;

use crate::data::credentials::{self, Granted};
use crate::data::egress::EgressClient;
use crate::data::egress::addresses::EgressPolicy;
use crate::data::ipfs::Kubo;
use crate::data::progress::Progress;
use crate::data::retry::{AttemptError, RetryPolicy};
use crate::data::s3::Buckets;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{self, Disk, LimitedBy};
use crate::host::settings::Settings;
use crate::host::tree::remove_all;
use crate::observer;

use cache::Cache;
use cache::handle::CacheHandle;
use fetcher::Fetcher;
use inline::Inline;
use ipfs::Ipfs;
use job::JobResults;
use job::relay::{InputRelay, OtherJobs};
use local_directory::LocalDirectory;
use placement::{InputDestination, MountedInput, Quota, check_file_name};
use repository::{LargeFiles, Programs, Repository};
use s3::S3;
use source::{Fetch, Source};
use url_download::UrlDownload;

/// The source types that work on this node.
#[derive(Debug)]
pub(crate) struct Sources {
    inline: Inline,
    url_download: UrlDownload,
    local_directory: Option<LocalDirectory>,
    s3: S3,
    repository: Option<Repository>,
    repository_lfs: Option<Repository>,
    ipfs: Option<Ipfs>,
    job: JobResults,
    cache: Cache,
    /// Fetches in processes of their own; without it this process fetches.
    fetcher: Option<Fetcher>,
    /// The limit for the inputs of a task that requests no disk.
    max_bytes: u64,
    disk: Disk,
}

/// What the orchestrator gave for one input.
struct Given<'a> {
    /// What its `Params` name.
    credential: Option<&'a CredentialValue>,
    /// What it has that is results of a job.
    results: Option<InputResults>,
    relay: InputRelay,
}

// === impl Sources ===

impl Sources {
    /// Builds the sources that the settings and the machine allow; they may keep inputs in
    /// `cache`.
    pub(crate) fn new(settings: &Settings, cache: PathBuf) -> Self {
        // Git parses more untrusted input than any other source.
        let programs = match settings.allow_unconfined || confine::is_supported() {
            true => Programs::of_this_machine(),
            false => Programs::default(),
        };
        Self::with_programs(settings, cache, programs)
    }

    fn with_programs(settings: &Settings, cache: PathBuf, programs: Programs) -> Self {
        let client = EgressClient::new(EgressPolicy::from_settings(settings));
        let repository = |large_files| Repository {
            client: client.clone(),
            local: LocalDirectory::new(&settings.allow_local_paths),
            large_files,
            retry: RetryPolicy::NETWORK,
        };
        let kubo = Kubo::new(&settings.ipfs.api);
        let ipfs = kubo.clone().map(|kubo| Ipfs::new(kubo, RetryPolicy::NETWORK));
        let s3 = || S3::new(Buckets::new(settings, client.clone(), RetryPolicy::NETWORK));
        Self {
            inline: Inline,
            job: JobResults::new(s3(), kubo, RetryPolicy::NETWORK),
            ipfs,
            repository: programs.git.then(|| repository(LargeFiles::Left)),
            repository_lfs: programs.git_lfs.then(|| repository(LargeFiles::Fetched)),
            s3: s3(),
            url_download: UrlDownload::new(client, RetryPolicy::NETWORK),
            local_directory: LocalDirectory::new(&settings.allow_local_paths),
            // The cache lies in the data directory, which exists.
            disk: Disk::new(cache.parent().unwrap_or(&cache), settings.disk.reserve_bytes),
            cache: Cache::new(cache, settings.inputs.cache_bytes),
            fetcher: Fetcher::new(settings),
            max_bytes: settings.inputs.max_bytes,
        }
    }

    pub(crate) fn offered(&self) -> Vec<SourceType> {
        let offers = |kind: &SourceType| match kind {
            // Tasks with credentials of their own need no node that has some.
            SourceType::S3 => self.s3.has_credentials(),
            kind => self.get(*kind).is_some(),
        };
        SourceType::ALL.iter().copied().filter(offers).collect()
    }

    pub(crate) fn get(&self, kind: SourceType) -> Option<&dyn Source> {
        fn some(source: &impl Source) -> &dyn Source {
            source
        }
        match kind {
            SourceType::Inline => Some(&self.inline),
            SourceType::UrlDownload => Some(&self.url_download),
            SourceType::LocalDirectory => self.local_directory.as_ref().map(some),
            SourceType::S3 => Some(&self.s3),
            SourceType::RepoClone => self.repository.as_ref().map(some),
            SourceType::RepoCloneLfs => self.repository_lfs.as_ref().map(some),
            SourceType::Ipfs => self.ipfs.as_ref().map(some),
            SourceType::Job => Some(&self.job),
        }
    }

    /// Why this node cannot fetch this input, judging by its specification alone.
    pub(crate) fn admit(&self, input: &InputSource) -> Result<(), String> {
        let kind = input.source.source_type;
        let is_alone = kind == SourceType::S3
            && !self.s3.has_credentials()
            && credentials::named(&input.source.params).is_none();
        let Some(source) = self.get(kind).filter(|_| !is_alone) else {
            let offered: Vec<_> = self.offered().iter().map(ToString::to_string).collect();
            return Err(format!("not supported on this node; supported: {}", offered.join(", ")));
        };
        if !input.alias.is_empty() {
            check_file_name(&input.alias).map_err(|reason| format!("its Alias {reason}"))?;
        }
        source.admit(input)
    }

    /// Fetches all inputs of a task in sequence, and reports progress when that takes long. Of
    /// its work, the namespace and the requested disk matter.
    pub(crate) async fn fetch_all(
        &self,
        inputs: &[InputSource],
        work: &Work,
        (granted, other_jobs): (&Granted, &OtherJobs),
        dir: &ExecutionDir,
        progress: &Progress,
    ) -> Result<Vec<MountedInput>, Failure> {
        let cache = CacheHandle::Own { cache: &self.cache, namespace: &work.namespace };
        let quota = Arc::new(match work.resources.disk {
            0 => Quota::new(self.max_bytes, LimitedBy::Node, self.disk.clone()),
            disk_bytes => Quota::new(disk_bytes, LimitedBy::Task, self.disk.clone()),
        });
        let mut mounted = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let fetching = async {
                let kind = input.source.source_type;
                let name = format!("input {index} ({kind}, for '{}')", input.target);
                let before_bytes = quota.taken_bytes();
                let progress_text =
                    || format!("fetching {name}: {}", quota.progress_text(before_bytes));
                let of_input = |failure: Failure| Failure {
                    message: format!("{name}: {}", failure.message),
                    ..failure
                };
                let given = Given {
                    credential: granted.named_in(&input.source.params)?,
                    results: match kind {
                        SourceType::Job => {
                            Some(other_jobs.results(index, progress).await.map_err(of_input)?)
                        }
                        _ => None,
                    },
                    relay: other_jobs.relay(index),
                };
                let fetch = || self.fetch_one(index, (input, &given), &quota, cache, dir);
                let mut fetched = progress.during(fetch(), progress_text).await;
                // Cached inputs are evicted before a task fails for lack of space.
                if fetched.is_err()
                    && self.disk.shortage().is_some()
                    && self.cache.make_room().await
                {
                    quota.give_back(quota.taken_bytes().saturating_sub(before_bytes));
                    fetched = progress.during(fetch(), progress_text).await;
                }
                let held = fetched.and_then(|mounted| match (kind, &self.local_directory) {
                    (SourceType::LocalDirectory, Some(local)) => {
                        local.hold(dir.id(), &mounted).map(|()| mounted)
                    }
                    _ => Ok(mounted),
                });
                held.map_err(of_input)
            };
            // A large future, in every execution's.
            mounted.push(Box::pin(fetching).await?);
        }
        refuse_overlaps(&mounted)?;
        Ok(mounted)
    }

    /// Holds the directories of the node that a task has mounted which runs since before this agent.
    pub(crate) fn hold_again(&self, id: ExecutionId, inputs: &[InputSource]) {
        if let Some(local) = &self.local_directory {
            local.hold_again(id, inputs);
        }
    }

    /// The task has ended, and its mounts with it.
    pub(crate) fn release(&self, id: ExecutionId) {
        if let Some(local) = &self.local_directory {
            local.release(id);
        }
    }

    async fn fetch_one(
        &self,
        index: usize,
        (input, given): (&InputSource, &Given<'_>),
        quota: &Arc<Quota>,
        cache: CacheHandle<'_>,
        dir: &ExecutionDir,
    ) -> Result<MountedInput, Failure> {
        let source = self
            .get(input.source.source_type)
            .ok_or_else(|| Failure::node("not supported on this node"))?;
        let root = dir.input(index);
        remove_all(&root)
            .and_then(|()| std::fs::create_dir_all(&root))
            .map_err(|error| disk::failure(&error))?;
        let place = InputDestination::new(root, input);
        let Given { credential, results, relay } = given;
        let results = results.as_ref();
        let fetch = async {
            match self.fetcher.as_ref().filter(|_| Fetcher::is_for(input)) {
                // A large future, in every execution's.
                Some(fetcher) => {
                    let order = fetcher.order(input, (*credential, results), &place, quota);
                    fetcher.fetch(order, quota, &cache, relay).boxed().await
                }
                None => {
                    let (place, quota) = (place.clone(), Arc::clone(quota));
                    let (credential, relay) = (*credential, relay.clone());
                    let fetch = Fetch { input, credential, results, relay, place, quota, cache };
                    source.fetch(fetch).await
                }
            }
        };
        observer::fetch(input.source.source_type, index, || quota.taken_bytes(), async {
            fetch.await.map_err(|error| match error {
                AttemptError::Permanent(failure) | AttemptError::Transient(failure) => failure,
            })
        })
        .await
    }
}

/// Refuses two inputs that the task would see under one path, or one inside the other: what they are
/// and how they are called is certain only now.
fn refuse_overlaps(mounted: &[MountedInput]) -> Result<(), Failure> {
    for (index, MountedInput { target, .. }) in mounted.iter().enumerate() {
        for (earlier, MountedInput { target: other, .. }) in mounted[..index].iter().enumerate() {
            if target == other {
                return Err(Failure::task(format!(
                    "inputs {earlier} and {index} would both be '{target}'; give one of them an \
                     Alias"
                )));
            }
            if is_below(target, other) || is_below(other, target) {
                return Err(Failure::task(format!(
                    "inputs {earlier} and {index}, '{other}' and '{target}', would be one inside \
                     the other; give the directory its own Target"
                )));
            }
        }
    }
    Ok(())
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod contract;
