//! The key ring: keys of the cluster, encrypted under the cluster key.
//!
//! The cluster key is the one secret that a backup of the state must not contain: it is a file of
//! its own, and each key of the ring is encrypted under it. The key of the CA is a file in the data
//! directory, since it is needed before the state can be read; the keys of secrets are records.

pub(crate) mod sealing;
mod values;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use control_plane::records::{Expected, Record, RecordKey, RecordKind, RecordWrite};
use pki::{Authority, AuthorityError};
use zeroize::Zeroizing;

use crate::files;
use sealing::{KEY_BYTES, NoRandom, Sealed, SealingKey, random};

const CLUSTER_KEY: &str = "cluster.key";

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// The certificate is public: clients need a copy of it.
const CERTIFICATE_MODE: u32 = 0o644;

/// Keys of the cluster.
pub(crate) struct KeyRing {
    data_dir: PathBuf,
    /// The file of the cluster key.
    path: PathBuf,
    cluster_key: OnceLock<SealingKey>,
    making: Mutex<()>,
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
    #[error("{} and ca.key are no CA; restore both from a backup", path.display())]
    Authority { path: PathBuf, source: AuthorityError },
    #[error(transparent)]
    Random(#[from] NoRandom),
}

// === impl KeyError ===

impl KeyError {
    /// Whether a file that the settings name is at fault.
    pub(crate) fn is_of_settings(&self) -> bool {
        match self {
            Self::NoClusterKey { .. }
            | Self::NotAClusterKey { .. }
            | Self::OtherClusterKey { .. } => true,
            Self::Io { .. } | Self::Damaged { .. } | Self::Authority { .. } | Self::Random(_) => {
                false
            }
        }
    }
}

// === impl KeyRing ===

impl KeyRing {
    /// Reads the cluster key from this file, or from the data directory when there is no name, and
    /// checks that it is the one of everything encrypted so far: in files, and in these records. It
    /// is made when it is first needed, and never while anything is encrypted already.
    pub(crate) fn open(
        data_dir: &Path,
        cluster_key: &Path,
        records: &[Record],
    ) -> Result<Self, KeyError> {
        let path = match cluster_key.as_os_str().is_empty() {
            true => data_dir.join(CLUSTER_KEY),
            false => cluster_key.to_owned(),
        };
        let ring = Self {
            data_dir: data_dir.to_owned(),
            path,
            cluster_key: OnceLock::new(),
            making: Mutex::new(()),
        };
        let ca_key = ring.sealed(CA_KEY)?.map(|sealed| (ring.file(CA_KEY), sealed));
        let of_records = records.iter().filter(|record| record.key.kind == RecordKind::Key);
        let of_records = of_records.map(|record| {
            let what = format!("the key '{}' in the state database", record.key.key);
            sealed_key(record).map(|sealed| (what, sealed))
        });
        let encrypted: Vec<_> =
            ca_key.into_iter().map(Ok).chain(of_records).collect::<Result<_, _>>()?;
        match ring.read()? {
            Some(key) => {
                let other = encrypted.into_iter().find(|(_, sealed)| sealed.key_id != key.id());
                if let Some((what, sealed)) = other {
                    return Err(KeyError::OtherClusterKey {
                        what,
                        of: sealed.key_id,
                        cluster_key: ring.path,
                        found: key.id().to_owned(),
                    });
                }
                drop(ring.cluster_key.set(key));
            }
            None if !encrypted.is_empty() => {
                return Err(KeyError::NoClusterKey { path: ring.path });
            }
            None => {}
        }
        Ok(ring)
    }

    fn read(&self) -> Result<Option<SealingKey>, KeyError> {
        let path = self.path.clone();
        match fs::read_to_string(&path).map(Zeroizing::new) {
            Ok(text) => {
                let bytes = STANDARD.decode(text.trim()).ok().map(Zeroizing::new);
                let key = bytes.and_then(|bytes| SealingKey::new(&bytes));
                key.map(Some).ok_or(KeyError::NotAClusterKey { path })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeyError::Io { path, source }),
        }
    }

    /// The cluster key, made on the first call.
    fn cluster_key(&self) -> Result<&SealingKey, KeyError> {
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = self.cluster_key.get() {
            return Ok(key);
        }
        let bytes: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(random()?);
        let text = Zeroizing::new(format!("{}\n", STANDARD.encode(*bytes)));
        files::write(&self.path, text.as_bytes(), files::SECRET_MODE)
            .map_err(|source| KeyError::Io { path: self.path.clone(), source })?;
        let key = SealingKey::new(&*bytes).ok_or(NoRandom)?;
        Ok(self.cluster_key.get_or_init(|| key))
    }

    /// The CA of the cluster, made on the first call.
    pub(crate) fn authority(&self) -> Result<Authority, KeyError> {
        let path = self.certificate_file();
        let failed = |source| KeyError::Authority { path: path.clone(), source };
        if let Some(sealed) = self.sealed(CA_KEY)? {
            let damaged = || KeyError::Damaged { what: self.file(CA_KEY) };
            let key = self.cluster_key()?.unseal(CA_KEY, &sealed).ok_or_else(damaged)?;
            let key = std::str::from_utf8(&key).map_err(|_| damaged())?;
            let certificate = fs::read_to_string(&path)
                .map_err(|source| KeyError::Io { path: path.clone(), source })?;
            return Authority::load(&certificate, key).map_err(failed);
        }
        let authority = Authority::make().map_err(failed)?;
        // The key comes last: without it, both are made anew.
        files::write(&path, authority.certificate().as_bytes(), CERTIFICATE_MODE)
            .map_err(|source| KeyError::Io { path: path.clone(), source })?;
        let key = Zeroizing::new(authority.private_key());
        let sealed = self.cluster_key()?.seal(CA_KEY, key.as_bytes())?;
        let path = self.data_dir.join(CA_KEY);
        serde_json::to_vec(&sealed)
            .map_err(io::Error::from)
            .and_then(|bytes| files::write(&path, &bytes, files::SECRET_MODE))
            .map_err(|source| KeyError::Io { path, source })?;
        Ok(authority)
    }

    /// Where the CA's certificate is.
    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.data_dir.join(CA_CERTIFICATE)
    }

    /// A new key as a record, for something else to be encrypted with.
    pub(crate) fn mint(&self) -> Result<(SealingKey, RecordWrite), KeyError> {
        let bytes: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(random()?);
        let key = SealingKey::new(&*bytes).ok_or(NoRandom)?;
        let record = Self::key_of(key.id());
        let sealed = self.cluster_key()?.seal(&record.key, &*bytes)?;
        let value = serde_json::to_string(&sealed).expect("a sealed key is plain data");
        let write =
            RecordWrite { key: record, expected: Expected::Nothing, value: Some(value.into()) };
        Ok((key, write))
    }

    /// The key in this record.
    pub(crate) fn open_key(&self, record: &Record) -> Result<SealingKey, KeyError> {
        let what = || format!("the key '{}' in the state database", record.key.key);
        let sealed = sealed_key(record)?;
        let bytes = self.cluster_key()?.unseal(&record.key.key, &sealed);
        let key = bytes.and_then(|bytes| SealingKey::new(&bytes));
        key.ok_or_else(|| KeyError::Damaged { what: what() })
    }

    /// Under which record the key with this ID is.
    pub(crate) fn key_of(id: &str) -> RecordKey {
        RecordKind::Key.key(id)
    }

    fn file(&self, name: &str) -> String {
        self.data_dir.join(name).display().to_string()
    }

    fn sealed(&self, name: &str) -> Result<Option<Sealed>, KeyError> {
        let path = self.data_dir.join(name);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|_| KeyError::Damaged { what: self.file(name) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeyError::Io { path, source }),
        }
    }
}

fn sealed_key(record: &Record) -> Result<Sealed, KeyError> {
    serde_json::from_str(&record.value).map_err(|_| KeyError::Damaged {
        what: format!("the key '{}' in the state database", record.key.key),
    })
}

#[cfg(test)]
mod tests;
