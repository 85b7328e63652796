//! The key ring: keys of the cluster, encrypted under the cluster key.
//!
//! The cluster key is the one secret that a backup of the state must not contain: it is a file of
//! its own, and each key of the ring is encrypted under it. The ring holds the CA's key, as a file
//! in the data directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pki::{Authority, AuthorityError};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use crate::files;

const CLUSTER_KEY: &str = "cluster.key";
const CLUSTER_KEY_BYTES: usize = 32;

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// The certificate is public: clients need a copy of it.
const CERTIFICATE_MODE: u32 = 0o644;

/// Keys of the cluster.
pub(crate) struct KeyRing {
    data_dir: PathBuf,
    key: LessSafeKey,
    key_id: String,
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
        "{} was encrypted with the cluster key {of}, and {} is the key {found}; restore the right \
         one from a backup",
        path.display(),
        cluster_key.display()
    )]
    OtherClusterKey { path: PathBuf, of: String, cluster_key: PathBuf, found: String },
    #[error("{} is damaged; restore it from a backup", path.display())]
    Damaged { path: PathBuf },
    #[error("{} and ca.key are no CA; restore both from a backup", path.display())]
    Authority { path: PathBuf, source: AuthorityError },
    #[error("the system has no random numbers")]
    Random,
}

/// A secret as it is stored.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Sealed {
    /// Of the key that encrypted it.
    #[serde(rename = "KeyID")]
    key_id: String,
    /// In base64, like the ciphertext.
    nonce: String,
    ciphertext: String,
}

// === impl KeyRing ===

impl KeyRing {
    /// Reads the cluster key from this file, or from the data directory when there is no name;
    /// makes one where nothing was encrypted yet.
    pub(crate) fn open(data_dir: &Path, cluster_key: &Path) -> Result<Self, KeyError> {
        let path = match cluster_key.as_os_str().is_empty() {
            true => data_dir.join(CLUSTER_KEY),
            false => cluster_key.to_owned(),
        };
        let bytes = match fs::read_to_string(&path) {
            Ok(text) => STANDARD
                .decode(text.trim())
                .ok()
                .filter(|bytes| bytes.len() == CLUSTER_KEY_BYTES)
                .ok_or_else(|| KeyError::NotAClusterKey { path: path.clone() })?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if data_dir.join(CA_KEY).exists() {
                    return Err(KeyError::NoClusterKey { path });
                }
                make_cluster_key(&path)?
            }
            Err(source) => return Err(KeyError::Io { path, source }),
        };
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).map_err(|_| KeyError::Random)?;
        let ring = Self {
            data_dir: data_dir.to_owned(),
            key: LessSafeKey::new(key),
            key_id: key_id(&bytes),
        };
        ring.check(&path)?;
        Ok(ring)
    }

    /// Fails early, and names the cluster key, when it is another one.
    fn check(&self, cluster_key: &Path) -> Result<(), KeyError> {
        match self.sealed(CA_KEY)? {
            Some(Sealed { key_id, .. }) if key_id != self.key_id => {
                Err(KeyError::OtherClusterKey {
                    path: self.data_dir.join(CA_KEY),
                    of: key_id,
                    cluster_key: cluster_key.to_owned(),
                    found: self.key_id.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The CA of the cluster, made on the first call.
    pub(crate) fn authority(&self) -> Result<Authority, KeyError> {
        let path = self.certificate_file();
        let failed = |source| KeyError::Authority { path: path.clone(), source };
        if let Some(sealed) = self.sealed(CA_KEY)? {
            let key = self.unseal(CA_KEY, sealed)?;
            let certificate = fs::read_to_string(&path)
                .map_err(|source| KeyError::Io { path: path.clone(), source })?;
            return Authority::load(&certificate, &key).map_err(failed);
        }
        let authority = Authority::make().map_err(failed)?;
        // The key comes last: without it, both are made anew.
        files::write(&path, authority.certificate().as_bytes(), CERTIFICATE_MODE)
            .map_err(|source| KeyError::Io { path: path.clone(), source })?;
        self.seal(CA_KEY, authority.private_key())?;
        Ok(authority)
    }

    /// Where the CA's certificate is.
    pub(crate) fn certificate_file(&self) -> PathBuf {
        self.data_dir.join(CA_CERTIFICATE)
    }

    fn sealed(&self, name: &str) -> Result<Option<Sealed>, KeyError> {
        let path = self.data_dir.join(name);
        match fs::read(&path) {
            Ok(bytes) => {
                serde_json::from_slice(&bytes).map(Some).map_err(|_| KeyError::Damaged { path })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(KeyError::Io { path, source }),
        }
    }

    /// The name is authenticated: no secret can be put in another's place.
    fn seal(&self, name: &str, secret: String) -> Result<(), KeyError> {
        let path = self.data_dir.join(name);
        let nonce: [u8; NONCE_LEN] = random()?;
        let mut bytes = secret.into_bytes();
        self.key
            .seal_in_place_append_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(name.as_bytes()),
                &mut bytes,
            )
            .map_err(|_| KeyError::Random)?;
        let sealed = Sealed {
            key_id: self.key_id.clone(),
            nonce: STANDARD.encode(nonce),
            ciphertext: STANDARD.encode(bytes),
        };
        serde_json::to_vec(&sealed)
            .map_err(io::Error::from)
            .and_then(|bytes| files::write(&path, &bytes, files::SECRET_MODE))
            .map_err(|source| KeyError::Io { path, source })
    }

    fn unseal(&self, name: &str, sealed: Sealed) -> Result<String, KeyError> {
        let open = || {
            let nonce = STANDARD.decode(&sealed.nonce).ok()?;
            let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
            let mut bytes = STANDARD.decode(&sealed.ciphertext).ok()?;
            let aad = Aad::from(name.as_bytes());
            let secret = self.key.open_in_place(nonce, aad, &mut bytes).ok()?;
            String::from_utf8(secret.to_vec()).ok()
        };
        open().ok_or_else(|| KeyError::Damaged { path: self.data_dir.join(name) })
    }
}

fn make_cluster_key(path: &Path) -> Result<Vec<u8>, KeyError> {
    let bytes: [u8; CLUSTER_KEY_BYTES] = random()?;
    let text = format!("{}\n", STANDARD.encode(bytes));
    files::write(path, text.as_bytes(), files::SECRET_MODE)
        .map_err(|source| KeyError::Io { path: path.to_owned(), source })?;
    Ok(bytes.to_vec())
}

fn random<const LENGTH: usize>() -> Result<[u8; LENGTH], KeyError> {
    let mut bytes = [0; LENGTH];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Random)?;
    Ok(bytes)
}

/// Names a key without telling anything about it.
fn key_id(key: &[u8]) -> String {
    let digest = digest(&SHA256, key);
    digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
