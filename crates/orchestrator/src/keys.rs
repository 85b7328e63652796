//! The key ring: keys of the cluster, in the state database, encrypted with the cluster key.
//!
//! The cluster key is the one secret that a backup of the state must not contain: it is a file of
//! its own, see [`cluster_key`]. Each key of the ring is a record. A record of the CA has its
//! certificate too; see [`authorities`].
//!
//! Keys are replaced while the service runs. A request that stores something encrypted holds
//! [`KeyRing::in_use`] until it is committed, and a rotation holds [`KeyRing::alone`] while it
//! removes or re-encrypts keys, so that nothing is ever encrypted with a key that is gone.

pub(crate) mod authorities;
mod cluster_key;
mod error;
pub(crate) mod sealing;
mod stored;
mod values;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use zeroize::Zeroizing;

use crate::records::Published;
use cluster_key::ClusterKey;
pub(crate) use cluster_key::{CLUSTER_KEY, cluster_key_files};
pub(crate) use error::KeyError;
use error::named;
use sealing::{KEY_BYTES, NoRandom, Sealed, SealingKey, random};
use stored::StoredKey;
pub(crate) use stored::{Purpose, of_purpose};

/// Keys of the cluster.
pub(crate) struct KeyRing {
    data_dir: PathBuf,
    cluster_key: ClusterKey,
    use_of_keys: Arc<RwLock<()>>,
    /// Notified when something is left to do after a change of keys.
    pub(crate) changed: Notify,
}

/// The ID of the cluster key that the keys among these records are encrypted with.
pub(crate) fn cluster_key_of(records: &[Record]) -> Result<Option<String>, KeyError> {
    Ok(sealed(records)?.pop().map(|(_, sealed)| sealed.key_id))
}

/// The encrypted keys among these records.
fn sealed(records: &[Record]) -> Result<Vec<(RecordKey, Sealed)>, KeyError> {
    let keys = records.iter().filter(|record| record.key.kind == RecordKind::Key);
    let mut found = Vec::new();
    for record in keys {
        found.extend(StoredKey::read(record)?.sealed.map(|sealed| (record.key.clone(), sealed)));
    }
    Ok(found)
}

// === impl KeyRing ===

impl KeyRing {
    /// Reads the cluster key from this file, or from the data directory when there is no name, and
    /// checks that it is the one of everything encrypted so far. It is made when it is first needed,
    /// and never while anything is encrypted already.
    pub(crate) fn open(
        data_dir: &Path,
        cluster_key: &Path,
        records: &[Record],
    ) -> Result<Self, KeyError> {
        let of_records = sealed(records)?.into_iter();
        let mut encrypted: Vec<_> =
            of_records.map(|(key, sealed)| (named(&key), sealed.key_id)).collect();
        encrypted.extend(authorities::in_file(data_dir)?);
        Ok(Self {
            data_dir: data_dir.to_owned(),
            cluster_key: ClusterKey::open(data_dir, cluster_key, &encrypted)?,
            use_of_keys: Arc::default(),
            changed: Notify::new(),
        })
    }

    /// Holds off changes of the ring, while something is encrypted and stored.
    pub(crate) async fn in_use(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.use_of_keys).read_owned().await
    }

    /// Waits until everything that was encrypted is stored, and holds off what comes next.
    pub(crate) async fn alone(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.use_of_keys).write_owned().await
    }

    /// A new key of values as a record, newer than all that there are.
    pub(crate) fn mint(&self, records: &Published) -> Result<(SealingKey, RecordWrite), KeyError> {
        self.cluster_key.follow(records)?;
        let bytes: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(random()?);
        let key = SealingKey::new(&*bytes).ok_or(NoRandom)?;
        let record = Self::key_of(key.id());
        let stored = StoredKey {
            number: stored::newest(records, Purpose::Values)?.map_or(1, |(_, it)| it.number + 1),
            create_time: crate::clock::now(),
            sealed: Some(self.cluster_key.seal(&record.key, &*bytes)?),
            authority: None,
        };
        let write = stored.write(record, Expected::Nothing);
        Ok((key, write))
    }

    /// The key of values in this record.
    pub(crate) fn open_key(&self, record: &Record) -> Result<SealingKey, KeyError> {
        let damaged = || KeyError::Damaged { what: named(&record.key) };
        let sealed = StoredKey::read(record)?.sealed.ok_or_else(damaged)?;
        let bytes = self.cluster_key.unseal(&record.key.key, &sealed);
        bytes.and_then(|bytes| SealingKey::new(&bytes)).ok_or_else(damaged)
    }

    /// Opens every key among these records, so that nothing is left that the cluster key does not open.
    pub(crate) fn open_all(&self, records: &[Record]) -> Result<(), KeyError> {
        for (key, sealed) in sealed(records)? {
            let opened = self.cluster_key.unseal(&key.key, &sealed);
            opened.ok_or_else(|| KeyError::Damaged { what: named(&key) })?;
        }
        Ok(())
    }

    /// Under which record the key of values with this ID is.
    pub(crate) fn key_of(id: &str) -> RecordKey {
        RecordKind::Key.key(id)
    }

    /// The ID of the cluster key; none before there is anything to encrypt.
    pub(crate) fn cluster_key_id(&self) -> Option<String> {
        self.cluster_key.id()
    }

    /// The ID of the next cluster key, which must be in its file.
    pub(crate) fn next_cluster_key(&self) -> Result<String, KeyError> {
        self.cluster_key.next_id()
    }

    /// All keys of the ring encrypted with the next cluster key: the one with this ID, or one that is
    /// made unless its file is there. Empty where there are no keys. Once that is stored,
    /// [`Self::follow_cluster_key`] is due.
    pub(crate) fn under_next_cluster_key(
        &self,
        records: &Published,
        id: Option<&str>,
    ) -> Result<Vec<RecordWrite>, KeyError> {
        self.cluster_key.follow(records)?;
        let mut encrypted = Vec::new();
        for record in records.of_kind(RecordKind::Key) {
            let stored = StoredKey::read(&record)?;
            if let Some(sealed) = &stored.sealed {
                let key = self.cluster_key.unseal(&record.key.key, sealed);
                let damaged = || KeyError::Damaged { what: named(&record.key) };
                encrypted.push((key.ok_or_else(damaged)?, stored, record));
            }
        }
        if encrypted.is_empty() {
            return Ok(Vec::new());
        }
        let next = self.cluster_key.prepare_next(id)?;
        let encrypted = encrypted.into_iter().map(|(key, stored, record)| {
            let sealed = Some(next.seal(&record.key.key, &key)?);
            let expected = record.unchanged();
            Ok(StoredKey { sealed, ..stored }.write(record.key, expected))
        });
        encrypted.collect()
    }

    /// Uses the cluster key that the ring is encrypted with, and gives its file its name.
    pub(crate) fn follow_cluster_key(&self, records: &Published) -> Result<(), KeyError> {
        self.cluster_key.follow(records)?;
        self.cluster_key.settle();
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
