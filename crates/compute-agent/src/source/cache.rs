//! What was fetched before, kept by what identifies its content.
//!
//! An entry is a directory as a source filled it. It shares its files with the inputs of
//! executions by hard links, so that using an entry costs no copy, and dropping one takes nothing
//! away from a task that runs. Tasks see inputs read-only; nothing writes to a file once it is
//! here. The entry that was not used for the longest time goes first when there is too much.
//!
//! The key of an entry says what its content is, such as a URL with the validator that came with
//! the answer; a source that cannot tell does not ask the cache.

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::future::Future;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use tokio::sync::Mutex as AsyncMutex;
use tracing::{debug, warn};

use super::place::Quota;
use crate::attempts::Setback;
use crate::clock;
use crate::data_dir::{remove_all, size_of};

#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    /// What all entries may hold; an input that is larger is not kept. 0 keeps nothing.
    max_bytes: u64,
    /// The keys that are being fetched: who comes second waits and finds the entry.
    under_way: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes, under_way: Mutex::new(HashMap::new()) }
    }

    /// The name of an entry: what tells its content from every other, hashed.
    pub(crate) fn key(parts: &[&str]) -> String {
        let mut text = Vec::new();
        for part in parts {
            // With its length, so that no two lists of parts run together to the same text.
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        digest(&SHA256, &text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Fills `directory` with the entry, or with what `fetch` puts there, which becomes the entry.
    pub(crate) async fn fill<F: Future<Output = Result<(), Setback>>>(
        &self,
        key: &str,
        directory: &Path,
        quota: &Quota,
        fetch: impl FnOnce() -> F,
    ) -> Result<(), Setback> {
        if self.max_bytes == 0 {
            return fetch().await;
        }
        let turn = self.turn(key);
        let _turn = turn.lock().await;
        let entry = self.root.join(key);
        let (from, to) = (entry.clone(), directory.to_owned());
        let found = blocking(move || link_if_there(&from, &to)).await?;
        if let Some(bytes) = found {
            debug!(key, bytes, "an input comes from the cache");
            return quota.count(bytes);
        }
        fetch().await?;
        let (root, from) = (self.root.clone(), directory.to_owned());
        let max_bytes = self.max_bytes;
        if let Err(error) = blocking(move || keep(&root, &entry, &from, max_bytes)).await {
            // The input is there; that the next one has to be fetched again is a pity only.
            warn!(%error, key, "an input cannot be kept in the cache");
        }
        Ok(())
    }

    /// Gives back what the entries take of the disk; answers whether there were any.
    pub(crate) async fn make_room(&self) -> bool {
        let root = self.root.clone();
        match blocking(move || shrink(&root, 0)).await {
            Ok(dropped) => dropped > 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                warn!(%error, "the cache cannot be emptied");
                false
            }
        }
    }

    fn turn(&self, key: &str) -> Arc<AsyncMutex<()>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = under_way.get(key).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::new(AsyncMutex::new(()));
        under_way.insert(key.to_owned(), Arc::downgrade(&turn));
        turn
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

/// Links the entry to `directory`, and tells how much it is; none when there is no entry.
fn link_if_there(entry: &Path, directory: &Path) -> io::Result<Option<u64>> {
    match File::open(entry) {
        Ok(opened) => opened.set_times(FileTimes::new().set_modified(now()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    remove_all(directory)?;
    link_tree(entry, directory).map(Some)
}

/// Makes the directory an entry, whole or not at all, and drops what is too much.
fn keep(root: &Path, entry: &Path, directory: &Path, max_bytes: u64) -> io::Result<()> {
    if size_of(directory)? > max_bytes {
        return Ok(());
    }
    fs::create_dir_all(root)?;
    let beside = entry.with_extension("new");
    remove_all(&beside)?;
    link_tree(directory, &beside)?;
    remove_all(entry)?;
    fs::rename(&beside, entry)?;
    File::open(entry)?.set_times(FileTimes::new().set_modified(now()))?;
    shrink(root, max_bytes).map(drop)
}

/// Drops entries until what is left fits, the one that was not used for the longest time first;
/// answers how many.
fn shrink(root: &Path, max_bytes: u64) -> io::Result<usize> {
    let mut entries = Vec::new();
    let mut total_bytes: u64 = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        let bytes = size_of(&path)?;
        total_bytes += bytes;
        entries.push((fs::metadata(&path)?.modified()?, bytes, path));
    }
    entries.sort();
    let mut dropped = 0;
    for (_, bytes, path) in entries {
        if total_bytes <= max_bytes {
            break;
        }
        remove_all(&path)?;
        total_bytes -= bytes;
        dropped += 1;
    }
    Ok(dropped)
}

/// The same tree under another name: files are shared, directories and links made anew.
fn link_tree(from: &Path, to: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, place) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            bytes += link_tree(&entry.path(), &place)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, place)?;
        } else {
            fs::hard_link(entry.path(), place)?;
            bytes += entry.metadata()?.len();
        }
    }
    // A directory's permissions are its own; those of files come with the link.
    let mode = fs::metadata(from)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(bytes)
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH
        + std::time::Duration::from_nanos(u64::try_from(clock::now().0).unwrap_or_default())
}

#[cfg(test)]
mod tests;
