//! The orchestrator's identity: a node ID and an Ed25519 key pair, created once and kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use api_types::NodeId;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::files;

/// In the data directory. One file, so that the ID and the key cannot be separated.
pub(crate) const FILE: &str = "identity.json";

pub(crate) struct Identity {
    pub node_id: NodeId,
    /// Base64 of the Ed25519 public key.
    pub public_key: String,
}

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("access {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} does not hold this orchestrator's identity ({reason}); restore it from a backup, or \
         move it away to get a new one",
        path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("make an Ed25519 key pair")]
    Random,
}

#[derive(Serialize, Deserialize)]
struct Record {
    #[serde(rename = "NodeID")]
    node_id: NodeId,
    /// Base64 of the PKCS#8 document.
    #[serde(rename = "PrivateKey")]
    private_key: String,
}

// === impl Identity ===

impl Identity {
    /// Loads the identity from this directory, or creates it.
    pub(crate) fn load_or_make(dir: &Path) -> Result<Self, IdentityError> {
        let path = dir.join(FILE);
        let failed = |source| IdentityError::Io { path: path.clone(), source };
        match fs::read(&path) {
            Ok(bytes) => Self::read(&bytes)
                .map_err(|reason| IdentityError::Damaged { path: path.clone(), reason }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let record = Record::make()?;
                let bytes = serde_json::to_vec(&record).map_err(|error| failed(error.into()))?;
                files::write(&path, &bytes, files::SECRET_MODE).map_err(failed)?;
                record
                    .identity()
                    .map_err(|reason| IdentityError::Damaged { path: path.clone(), reason })
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn read(bytes: &[u8]) -> Result<Self, String> {
        let record: Record = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        record.identity()
    }
}

// === impl Record ===

impl Record {
    fn make() -> Result<Self, IdentityError> {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| IdentityError::Random)?;
        #[expect(clippy::disallowed_methods, reason = "the orchestrator's own id is minted here")]
        let uuid = Uuid::new_v4();
        Ok(Self {
            node_id: NodeId::from_uuid(uuid),
            private_key: STANDARD.encode(document.as_ref()),
        })
    }

    fn identity(&self) -> Result<Identity, String> {
        let document = STANDARD.decode(&self.private_key).map_err(|error| error.to_string())?;
        let pair = Ed25519KeyPair::from_pkcs8(&document).map_err(|error| error.to_string())?;
        let public_key = STANDARD.encode(pair.public_key().as_ref());
        Ok(Identity { node_id: self.node_id, public_key })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_identity_is_created_once_and_kept() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("data");
        let first = Identity::load_or_make(&dir).unwrap();
        let second = Identity::load_or_make(&dir).unwrap();
        assert_eq!(first.node_id, second.node_id);
        assert_eq!(first.public_key, second.public_key);
        assert_eq!(STANDARD.decode(&first.public_key).unwrap().len(), 32);
        let mode = fs::metadata(dir.join(FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, files::SECRET_MODE);
    }

    #[test]
    fn a_damaged_identity_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        for content in ["", "{}", "not json", r#"{"NodeID":"n-1","PrivateKey":"AA=="}"#] {
            fs::write(&path, content).unwrap();
            let error = Identity::load_or_make(dir.path()).err().unwrap();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{content}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
