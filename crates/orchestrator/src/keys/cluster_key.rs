//! The cluster key: the file that encrypts the key ring, and how another takes its place.
//!
//! While it is replaced there are two files: `cluster.key`, and `cluster.key.next` next to it. The
//! ring is re-encrypted in one commit, so the ring itself says which of the two is in use. Only then
//! does the next file get the name of the first. A crash at any point leaves a file that opens the
//! ring, and each start tries both.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::records::RecordKind;
use zeroize::Zeroizing;

use super::error::KeyError;
use super::sealing::{KEY_BYTES, NoRandom, Sealed, SealingKey, random};
use super::stored::StoredKey;
use crate::files;
use crate::records::Published;

/// In the data directory, unless the settings name another file.
pub(crate) const CLUSTER_KEY: &str = "cluster.key";

/// Added to the name of the file: the key that takes its place.
const NEXT: &str = ".next";

/// Added to the name of the file, with the ID of the key: a former one. Backups of the state may still
/// need it, and then the orchestrator says which.
const FORMER: &str = ".old-";

pub(super) struct ClusterKey {
    path: PathBuf,
    keys: RwLock<Keys>,
}

#[derive(Default)]
struct Keys {
    /// Made when it is first needed.
    current: Option<Arc<SealingKey>>,
    /// The one before or after it, while records may be encrypted with either.
    other: Option<Arc<SealingKey>>,
    /// Whether the current key is still in the file of the next.
    is_next: bool,
}

// === impl ClusterKey ===

impl ClusterKey {
    /// `encrypted` is what has been encrypted so far, each with the ID of its cluster key.
    pub(super) fn open(
        data_dir: &Path,
        named: &Path,
        encrypted: &[(String, String)],
    ) -> Result<Self, KeyError> {
        let path = file(data_dir, named);
        let this = Self { path, keys: RwLock::default() };
        let current = read(&this.path)?;
        let other = |key: &Option<SealingKey>| {
            let key = key.as_ref().map(SealingKey::id);
            encrypted.iter().find(|(_, of)| key != Some(of.as_str()))
        };
        let Some((what, of)) = other(&current) else {
            let current = current.map(Arc::new);
            *this.write() = Keys { current, ..Keys::default() };
            return Ok(this);
        };
        // One that cannot be read may be on its way to here; it counts once it is asked for.
        let next = read(&this.file(NEXT)).ok().flatten();
        if next.is_some() && other(&next).is_none() {
            let (current, other) = (next.map(Arc::new), current.map(Arc::new));
            *this.write() = Keys { current, other, is_next: true };
            this.settle();
            return Ok(this);
        }
        Err(match current {
            None => KeyError::NoClusterKey { path: this.path },
            Some(found) => KeyError::OtherClusterKey {
                what: what.clone(),
                of: of.clone(),
                found: found.id().to_owned(),
                cluster_key: this.path,
            },
        })
    }

    pub(super) fn id(&self) -> Option<String> {
        self.read().current.as_ref().map(|key| key.id().to_owned())
    }

    pub(super) fn seal(&self, place: &str, secret: &[u8]) -> Result<Sealed, KeyError> {
        let current = self.read().current.clone();
        let current = current.map_or_else(|| self.make(), Ok)?;
        Ok(current.seal(place, secret)?)
    }

    pub(super) fn unseal(&self, place: &str, sealed: &Sealed) -> Option<Zeroizing<Vec<u8>>> {
        let keys = self.read();
        let mut known = [&keys.current, &keys.other].into_iter().flatten();
        known.find(|key| key.id() == sealed.key_id)?.unseal(place, sealed)
    }

    /// Makes the first one.
    fn make(&self) -> Result<Arc<SealingKey>, KeyError> {
        let mut keys = self.write();
        if let Some(key) = &keys.current {
            return Ok(Arc::clone(key));
        }
        let key = Arc::new(make(&self.path)?);
        keys.current = Some(Arc::clone(&key));
        Ok(key)
    }

    /// The key that is to take the place of this one: the one with this ID, or one that is made
    /// unless its file is there.
    pub(super) fn prepare_next(&self, id: Option<&str>) -> Result<Arc<SealingKey>, KeyError> {
        let found = self.next()?;
        let path = self.file(NEXT);
        let next = match (id, found) {
            (None, None) => make(&path)?,
            (None, Some(next)) => next,
            (Some(id), Some(next)) if next.id() == id => next,
            (Some(_), _) => return Err(KeyError::NoNextClusterKey { path }),
        };
        let next = Arc::new(next);
        self.write().other = Some(Arc::clone(&next));
        Ok(next)
    }

    /// The ID of that key, which must be in its file.
    pub(super) fn next_id(&self) -> Result<String, KeyError> {
        let missing = || KeyError::NoNextClusterKey { path: self.file(NEXT) };
        Ok(self.next()?.ok_or_else(missing)?.id().to_owned())
    }

    /// What the file of the next key has.
    fn next(&self) -> Result<Option<SealingKey>, KeyError> {
        // Until then it has the only copy of the current one.
        self.rename()?;
        let current = self.id();
        Ok(read(&self.file(NEXT))?.filter(|next| current.as_deref() != Some(next.id())))
    }

    /// Uses the key that these records are encrypted with.
    pub(super) fn follow(&self, records: &Published) -> Result<(), KeyError> {
        for record in records.of_kind(RecordKind::Key) {
            let Some(sealed) = StoredKey::read(&record)?.sealed else { continue };
            let mut keys = self.write();
            if keys.other.as_ref().is_some_and(|key| key.id() == sealed.key_id) {
                let Keys { current, other, is_next } = &mut *keys;
                std::mem::swap(current, other);
                *is_next = true;
            }
            // All of them are encrypted with the same one.
            return Ok(());
        }
        Ok(())
    }

    /// Gives the current key the file of the former, which stays next to it. Both names are tried
    /// at a start, so nothing depends on it.
    pub(super) fn settle(&self) {
        if let Err(error) = self.rename() {
            let source = std::error::Error::source(&error).map(ToString::to_string);
            let (path, source) = (self.path.display(), source.unwrap_or_default());
            tracing::warn!(
                error = format!("{error}: {source}"),
                "the new cluster key is in use and still has the name {path}{NEXT}; rename it to \
                 {path}"
            );
        }
    }

    fn rename(&self) -> Result<(), KeyError> {
        let mut keys = self.write();
        if !keys.is_next {
            return Ok(());
        }
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| KeyError::Io { path, source }
        };
        match read(&self.path)? {
            // It has its final name already.
            Some(key) if keys.current.as_ref().is_some_and(|it| it.id() == key.id()) => {
                keys.is_next = false;
                return Ok(());
            }
            Some(former) => {
                let text = fs::read(&self.path).map(Zeroizing::new).map_err(failed(&self.path))?;
                let path = self.file(&format!("{FORMER}{}", former.id()));
                files::write(&path, &text, files::SECRET_MODE).map_err(failed(&path))?;
            }
            None => {}
        }
        let next = self.file(NEXT);
        fs::rename(&next, &self.path).map_err(failed(&next))?;
        let dir = self.path.parent().unwrap_or(Path::new("/"));
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed(dir))?;
        keys.is_next = false;
        Ok(())
    }

    fn file(&self, suffix: &str) -> PathBuf {
        with_suffix(&self.path, suffix)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, Keys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, Keys> {
        self.keys.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The IDs of the keys in the files, the current one first. What cannot be read has none.
pub(crate) fn cluster_key_files(data_dir: &Path, named: &Path) -> Vec<String> {
    let path = file(data_dir, named);
    let next = with_suffix(&path, NEXT);
    let keys = [path, next].into_iter().filter_map(|path| read(&path).ok().flatten());
    keys.map(|key| key.id().to_owned()).collect()
}

/// Where the key is that these settings name.
fn file(data_dir: &Path, named: &Path) -> PathBuf {
    match named.as_os_str().is_empty() {
        true => data_dir.join(CLUSTER_KEY),
        false => named.to_owned(),
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

fn read(path: &Path) -> Result<Option<SealingKey>, KeyError> {
    match fs::read_to_string(path).map(Zeroizing::new) {
        Ok(text) => {
            let bytes = STANDARD.decode(text.trim()).ok().map(Zeroizing::new);
            let key = bytes.and_then(|bytes| SealingKey::new(&bytes));
            key.map(Some).ok_or_else(|| KeyError::NotAClusterKey { path: path.to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(KeyError::Io { path: path.to_owned(), source }),
    }
}

fn make(path: &Path) -> Result<SealingKey, KeyError> {
    let bytes: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(random()?);
    let text = Zeroizing::new(format!("{}\n", STANDARD.encode(*bytes)));
    files::write(path, text.as_bytes(), files::SECRET_MODE)
        .map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    Ok(SealingKey::new(&*bytes).ok_or(NoRandom)?)
}
