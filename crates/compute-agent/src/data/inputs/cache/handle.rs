//! The cache as a source sees it: the node's own, or that of the agent that started this process.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;
use tracing::{debug, warn};

use super::{Cache, blocking, keep, link_if_there};
use crate::data::inputs::fetcher::parent::Parent;
use crate::data::inputs::placement::Quota;
use crate::data::retry::AttemptError;

#[derive(Debug, Clone, Copy)]
pub(crate) enum CacheHandle<'a> {
    /// The entries of one namespace. Others do not share them: a namespace cannot learn by a quick
    /// fetch what another one uses, nor put content under its keys.
    Own {
        cache: &'a Cache,
        namespace: &'a str,
    },
    Parent(&'a Parent),
}

/// What the cache has.
pub(crate) enum CacheLookup {
    /// The entry, now in the directory as well.
    Linked {
        bytes: u64,
    },
    Missing(Missing),
}

/// An entry that is being fetched; others who need it wait until this is dropped.
pub(crate) struct Missing {
    /// None where the cache is off.
    entry: Option<Entry>,
    directory: PathBuf,
}

struct Entry {
    root: PathBuf,
    path: PathBuf,
    max_bytes: u64,
    _turn: OwnedMutexGuard<()>,
}

// === impl CacheHandle ===

impl CacheHandle<'_> {
    /// Fills `directory` from the entry, or with `fetch`, whose result becomes the entry.
    pub(crate) async fn fill<F: Future<Output = Result<(), AttemptError>>>(
        &self,
        key: &str,
        directory: &Path,
        quota: &Quota,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), AttemptError> {
        if let Self::Parent(parent) = self {
            return parent.fill(key, directory, quota, fetch).await;
        }
        match self.find(key, directory).await? {
            CacheLookup::Linked { bytes } => quota.count(bytes),
            CacheLookup::Missing(missing) => {
                fetch().await?;
                missing.keep().await;
                Ok(())
            }
        }
    }

    /// Fills `directory` from the entry, or makes the caller the one who fetches it.
    pub(crate) async fn find(&self, key: &str, directory: &Path) -> io::Result<CacheLookup> {
        let directory = directory.to_owned();
        let (cache, namespace) = match self {
            Self::Own { cache, namespace } => (cache, namespace),
            Self::Parent(_) => return Err(io::Error::other("only the agent has the entries")),
        };
        if cache.max_bytes == 0 {
            return Ok(CacheLookup::Missing(Missing { entry: None, directory }));
        }
        let name = Cache::name(namespace, key);
        let turn = cache.turn(&name).lock_owned().await;
        let path = cache.root.join(&name);
        let (from, to) = (path.clone(), directory.clone());
        if let Some(bytes) = blocking(move || link_if_there(&from, &to)).await? {
            debug!(key, bytes, "an input comes from the cache");
            return Ok(CacheLookup::Linked { bytes });
        }
        let (root, max_bytes) = (cache.root.clone(), cache.max_bytes);
        let entry = Some(Entry { root, path, max_bytes, _turn: turn });
        Ok(CacheLookup::Missing(Missing { entry, directory }))
    }
}

// === impl Missing ===

impl Missing {
    /// Makes the directory, now complete, the entry.
    pub(crate) async fn keep(self) {
        let Self { entry: Some(entry), directory } = self else { return };
        let kept = blocking(move || {
            let Entry { root, path, max_bytes, _turn } = entry;
            keep(&root, &path, &directory, max_bytes)
        });
        if let Err(error) = kept.await {
            // The input is complete; failing to cache it only costs the next task a fetch.
            warn!(%error, "cannot keep an input in the cache");
        }
    }
}
