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
pub(crate) mod sealing;
mod stored;
mod values;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use pki::AuthorityError;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use zeroize::Zeroizing;

use crate::driver::CallError;
use crate::records::Published;
use cluster_key::ClusterKey;
use sealing::{KEY_BYTES, NoRandom, SealingKey, random};
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

/// Why the keys of the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("access {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} is missing, and the keys of this cluster are encrypted with it; copy it from a backup \
         or from another orchestrator, or name it with cluster_key_file",
        path.display()
    )]
    NoClusterKey { path: PathBuf },
    #[error("{} is not a cluster key: it is 32 bytes in base64", path.display())]
    NotAClusterKey { path: PathBuf },
    #[error(
        "{what} was encrypted with the cluster key {of}, and {} is the key {found}; restore the \
         right one from a backup",
        cluster_key.display()
    )]
    OtherClusterKey { what: String, of: String, cluster_key: PathBuf, found: String },
    #[error("{what} is damaged; restore it from a backup")]
    Damaged { what: String },
    #[error("{what} is no CA with its certificate; restore it from a backup")]
    Authority { what: String, source: AuthorityError },
    #[error(
        "{} is the key of another CA than that in the state database; restore the database that \
         belongs to it, or move the file away",
        path.display()
    )]
    TwoAuthorities { path: PathBuf },
    #[error("make a CA")]
    Make(#[source] AuthorityError),
    #[error(transparent)]
    Random(#[from] NoRandom),
    #[error("store a key")]
    Store(#[from] CallError),
}

/// A key of the ring, for error messages.
fn named(key: &RecordKey) -> String {
    format!("the key '{}' in the state database", key.key)
}

// === impl KeyError ===

impl KeyError {
    /// Whether a file that the settings name is at fault.
    pub(crate) fn is_of_settings(&self) -> bool {
        match self {
            Self::NoClusterKey { .. }
            | Self::NotAClusterKey { .. }
            | Self::OtherClusterKey { .. } => true,
            Self::Io { .. }
            | Self::Damaged { .. }
            | Self::Authority { .. }
            | Self::TwoAuthorities { .. }
            | Self::Make(_)
            | Self::Random(_)
            | Self::Store(_) => false,
        }
    }
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
        let of_records = records.iter().filter(|record| record.key.kind == RecordKind::Key);
        let mut encrypted = Vec::new();
        for record in of_records {
            if let Some(sealed) = StoredKey::read(record)?.sealed {
                encrypted.push((named(&record.key), sealed.key_id));
            }
        }
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

    /// Under which record the key of values with this ID is.
    pub(crate) fn key_of(id: &str) -> RecordKey {
        RecordKind::Key.key(id)
    }

    /// The ID of the cluster key; none before there is anything to encrypt.
    pub(crate) fn cluster_key_id(&self) -> Option<String> {
        self.cluster_key.id()
    }

    /// All keys of the ring encrypted with the next cluster key, which is made unless its file is
    /// there. Empty where there are no keys. Once that is stored, [`Self::follow_cluster_key`] is due.
    pub(crate) fn under_next_cluster_key(
        &self,
        records: &Published,
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
        let next = self.cluster_key.prepare_next()?;
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
