//! A cache of fetched inputs, keyed by the identity of their content.
//!
//! An entry is a directory as a source filled it. Inputs share its files through hard links: using
//! an entry copies nothing, and evicting one takes nothing away from a running task. Tasks see
//! inputs read-only; nothing writes to a file in the cache. When the cache exceeds a limit, the
//! namespace that holds the most loses its least recently used entry.
//!
//! An entry is evicted under another name, so that it is either found whole or not at all. One
//! that is evicted while it is being linked counts as missing.
//!
//! The key of an entry identifies its content, such as a URL with the response's validator;
//! a source that cannot identify its content does not use the cache.

pub(crate) mod boots;
pub(crate) mod handle;

use std::collections::HashMap;
use std::fs::{self, File, FileTimes};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use ring::digest::{SHA256, digest};
use tokio::sync::Mutex as AsyncMutex;
use tracing::warn;

use crate::data::retention::{Bounds, Item, superfluous};
use crate::host::clock;
use crate::host::tree::{remove_all, size_of};

/// Entries of all namespaces together: each takes inodes, however small it is.
const MAX_ENTRIES: usize = 10_000;

/// Characters of the name of an entry that tell namespaces apart.
const OWNER_LENGTH: usize = 16;

#[derive(Debug)]
pub(crate) struct Cache {
    root: PathBuf,
    /// The size limit of all entries; a larger input is not cached. 0 disables the cache.
    max_bytes: u64,
    /// Keys that are being fetched: a second caller waits and finds the entry.
    under_way: Mutex<HashMap<String, Weak<AsyncMutex<()>>>>,
}

// === impl Cache ===

impl Cache {
    pub(crate) fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes, under_way: Mutex::new(HashMap::new()) }
    }

    /// The name of an entry: a hash of everything that identifies its content.
    pub(crate) fn key(parts: &[&str]) -> String {
        let mut text = Vec::new();
        for part in parts {
            // Each part with its length, so that different lists of parts never produce the same
            // text.
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        digest(&SHA256, &text).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The name of an entry of a namespace: whose it is, and what it is.
    fn name(namespace: &str, key: &str) -> String {
        let owner = Self::key(&[namespace]);
        format!("{}-{}", &owner[..OWNER_LENGTH], Self::key(&[namespace, key]))
    }

    /// Evicts every entry to free disk space; returns whether there were any.
    pub(crate) async fn make_room(&self) -> bool {
        let root = self.root.clone();
        match blocking(move || shrink(&root, 0)).await {
            Ok(dropped) => dropped > 0,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => {
                warn!(%error, "cannot empty the input cache");
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

/// Links the entry to `directory` and returns its size; none when there is no entry.
fn link_if_there(entry: &Path, directory: &Path) -> io::Result<Option<u64>> {
    match File::open(entry) {
        Ok(opened) => opened.set_times(FileTimes::new().set_modified(now()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    remove_all(directory)?;
    match link_tree(entry, directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            remove_all(directory)?;
            Ok(None)
        }
        linked => linked.map(Some),
    }
}

/// Adds the directory as an entry atomically, and evicts entries beyond the limit.
fn keep(root: &Path, entry: &Path, directory: &Path, max_bytes: u64) -> io::Result<()> {
    if size_of(directory)? > max_bytes {
        return Ok(());
    }
    fs::create_dir_all(root)?;
    let temporary = entry.with_extension("new");
    remove_all(&temporary)?;
    link_tree(directory, &temporary)?;
    remove_all(entry)?;
    fs::rename(&temporary, entry)?;
    File::open(entry)?.set_times(FileTimes::new().set_modified(now()))?;
    shrink(root, max_bytes).map(drop)
}

/// Evicts entries until the rest fits; returns how many.
fn shrink(root: &Path, max_bytes: u64) -> io::Result<usize> {
    let (mut paths, mut items) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        // It is being made or removed.
        if path.extension().is_some() {
            continue;
        }
        match fs::metadata(&path).and_then(|entry| Ok((entry.modified()?, size_of(&path)?))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            measured => {
                let (age, bytes) = measured?;
                items.push(Item { owner: owner(&path), age, bytes });
                paths.push(path);
            }
        }
    }
    let count = if max_bytes == 0 { 0 } else { MAX_ENTRIES };
    let mut dropped = 0;
    for index in superfluous(&items, Bounds { bytes: max_bytes, count }) {
        dropped += usize::from(evict(&paths[index])?);
    }
    Ok(dropped)
}

/// The part of an entry's name that tells namespaces apart; empty for one of an earlier release.
fn owner(entry: &Path) -> String {
    let name = entry.file_name().and_then(|name| name.to_str());
    let owner = name.and_then(|name| name.split_once('-'));
    owner.map(|(owner, _)| owner.to_owned()).unwrap_or_default()
}

/// Returns whether the entry was still there.
fn evict(entry: &Path) -> io::Result<bool> {
    static EVICTED: AtomicU64 = AtomicU64::new(0);
    let number = EVICTED.fetch_add(1, Ordering::Relaxed);
    let moved = entry.with_extension(format!("{number}.evicted"));
    match fs::rename(entry, &moved) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        renamed => renamed.and_then(|()| remove_all(&moved)).map(|()| true),
    }
}

/// The same tree under another name: files are shared, directories and links are new.
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
    // A link shares the file's permissions; a directory needs its own.
    let mode = fs::metadata(from)?.permissions().mode();
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(bytes)
}

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH
        + std::time::Duration::from_nanos(u64::try_from(clock::steady().0).unwrap_or_default())
}

#[cfg(test)]
mod tests;
