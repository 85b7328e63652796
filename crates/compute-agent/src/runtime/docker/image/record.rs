//! The images that this agent pulled, and when each was last used.
//!
//! The file is written after a pull, before any task can use the image, and again by the collector
//! to save uses. An agent that crashes between a pull and the write leaves an image that is never
//! removed, rather than claim one that may be someone else's. An unreadable file counts as empty,
//! for the same reason.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_types::Timestamp;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::access::ImageAccess;

/// Namespaces that an image is counted for; beyond it the one that used it longest ago is dropped.
const MAX_USERS: usize = 16;

/// Shared by pulls, uses and collections.
#[derive(Debug, Clone)]
pub(super) struct Record {
    path: PathBuf,
    /// Whether the file could not be read: then it is unknown who may use which image.
    is_lost: bool,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// By the image's id.
    images: BTreeMap<String, Entry>,
    /// Whether the file is out of date.
    changed: bool,
    /// Names of images whose container is being created, with a count.
    held: HashMap<String, usize>,
}

/// One pulled image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The full names that it was pulled by.
    pub(super) names: BTreeSet<String>,
    pub(super) size_bytes: u64,
    pub(super) last_used: Timestamp,
    /// The namespaces whose tasks use it, with their last use; in the record of an earlier release
    /// nothing says whose it is.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) used_by: BTreeMap<String, Timestamp>,
    /// Who may use it, if not everybody; see [`ImageAccess`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) allowed: Option<BTreeSet<String>>,
}

/// Protects an image from removal until its container exists.
pub(crate) struct Hold {
    name: String,
    state: Arc<Mutex<State>>,
}

// === impl Record ===

impl Record {
    pub(super) fn open(path: &Path) -> Self {
        let images = read(path);
        let is_lost = images.is_err();
        let images = images.unwrap_or_else(|error| {
            warn!(path = %path.display(), %error,
                "cannot read the record of pulled images: they are never removed, and images from registries \
                 are pulled again before each use; remove the file to trust the images that are there");
            BTreeMap::new()
        });
        let state = State { images, ..State::default() };
        Self { path: path.to_owned(), is_lost, state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn hold(&self, name: String) -> Hold {
        *self.state().held.entry(name.clone()).or_default() += 1;
        Hold { name, state: Arc::clone(&self.state) }
    }

    /// Records a newly pulled image; returns whether that is on disk. Who uses it follows when its
    /// container is created.
    pub(super) async fn pulled(
        &self,
        id: &str,
        name: String,
        size_bytes: u64,
        access: &ImageAccess,
        now: Timestamp,
    ) -> bool {
        {
            let mut state = self.state();
            let before = state.images.get(id).map(|entry| entry.allowed.clone());
            let allowed = access.adds_to(before);
            let empty = Entry {
                names: BTreeSet::new(),
                size_bytes,
                last_used: now,
                used_by: BTreeMap::new(),
                allowed: None,
            };
            let entry = state.images.entry(id.to_owned()).or_insert(empty);
            entry.names.insert(name);
            entry.last_used = now;
            entry.allowed = allowed;
            state.changed = true;
        }
        self.save().await
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.state().images.contains_key(id)
    }

    /// Whether the image is there for this access; none for one that is not recorded.
    pub(super) fn allows(&self, id: &str, access: &ImageAccess) -> Option<bool> {
        self.state().images.get(id).map(|entry| access.is_among(entry.allowed.as_ref()))
    }

    /// A task of this namespace uses the image.
    pub(super) fn used_by(&self, id: &str, namespace: &str, now: Timestamp) {
        let mut state = self.state();
        let Some(entry) = state.images.get_mut(id) else { return };
        entry.last_used = now;
        entry.used_by.insert(namespace.to_owned(), now);
        if entry.used_by.len() > MAX_USERS {
            let oldest = entry.used_by.iter().min_by_key(|(_, last)| **last);
            if let Some(oldest) = oldest.map(|(namespace, _)| namespace.clone()) {
                entry.used_by.remove(&oldest);
            }
        }
        state.changed = true;
    }

    /// Images that someone else brought here are not recorded.
    pub(super) fn used(&self, id: &str, now: Timestamp) {
        let mut state = self.state();
        if let Some(entry) = state.images.get_mut(id) {
            entry.last_used = now;
            state.changed = true;
        }
    }

    pub(super) fn forget(&self, id: &str) {
        let mut state = self.state();
        state.changed |= state.images.remove(id).is_some();
    }

    /// All pulled images, the least recently used first.
    pub(super) fn by_last_use(&self) -> Vec<(String, Entry)> {
        let mut images: Vec<_> =
            self.state().images.iter().map(|(id, entry)| (id.clone(), entry.clone())).collect();
        images.sort_by_key(|(_, entry)| entry.last_used);
        images
    }

    pub(super) fn is_held(&self, entry: &Entry) -> bool {
        let state = self.state();
        entry.names.iter().any(|name| state.held.contains_key(name))
    }

    pub(super) fn size_bytes(&self) -> u64 {
        self.state().images.values().map(|entry| entry.size_bytes).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.state().images.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.state().images.is_empty()
    }

    /// Writes the file if it is out of date, and returns whether it is not. A failed write is retried
    /// with the next change.
    pub(super) async fn save(&self) -> bool {
        // The next agent must not take a new file for a whole one.
        if self.is_lost {
            return false;
        }
        let images = {
            let mut state = self.state();
            if !std::mem::take(&mut state.changed) {
                return true;
            }
            state.images.clone()
        };
        let path = self.path.clone();
        let written = tokio::task::spawn_blocking(move || write(&path, &images)).await;
        if let Err(error) = written.unwrap_or_else(|error| Err(io::Error::other(error))) {
            self.state().changed = true;
            warn!(path = %self.path.display(), %error, "cannot write the record of pulled images");
            return false;
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if let Some(count) = state.held.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.name);
            }
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Entry>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

/// Atomic: the old file or the new one, whenever the machine stops.
pub(super) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let fresh = path.with_extension("new");
    let mut file = File::create(&fresh)?;
    file.write_all(&serde_json::to_vec(value)?)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    path.parent().map_or(Ok(()), |directory| File::open(directory)?.sync_all())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::ZERO + std::time::Duration::from_secs(second)
    }

    #[tokio::test]
    async fn pulls_and_uses_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("images.json");
        let record = Record::open(&path);
        record.pulled("a", "h/a:1".to_owned(), 3, &ImageAccess::Node, at(1)).await;
        record.pulled("b", "h/b:1".to_owned(), 4, &ImageAccess::Node, at(2)).await;
        record.used("a", at(3));
        record.used("stranger", at(3));
        record.save().await;
        let record = Record::open(&path);
        let ids: Vec<_> = record.by_last_use().into_iter().map(|(id, _)| id).collect();
        assert_eq!((ids, record.size_bytes()), (vec!["b".to_owned(), "a".to_owned()], 7));
        record.forget("b");
        record.save().await;
        assert!(!Record::open(&path).knows("b") && Record::open(&path).knows("a"));
        assert!(!Record::open(&path).is_lost());
        std::fs::write(&path, "no json").unwrap();
        assert!(Record::open(&path).is_empty() && Record::open(&path).is_lost());
        // A disk that takes nothing.
        let record = Record::open(&dir.path().join("absent/images.json"));
        assert!(!record.pulled("c", "h/c:1".to_owned(), 3, &ImageAccess::Node, at(4)).await);
    }

    #[tokio::test]
    async fn an_image_is_held_until_the_last_one_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let record = Record::open(&dir.path().join("images.json"));
        record.pulled("a", "h/a:1".to_owned(), 3, &ImageAccess::Node, at(1)).await;
        let (_, entry) = record.by_last_use().remove(0);
        let (first, second) = (record.hold("h/a:1".to_owned()), record.hold("h/a:1".to_owned()));
        drop(first);
        assert!(record.is_held(&entry));
        drop(second);
        assert!(!record.is_held(&entry));
    }
}
