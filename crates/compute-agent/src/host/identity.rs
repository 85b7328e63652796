//! The file with the node's key and certificate.
//!
//! The key is written before it is used for the first time: a node whose answer was lost asks again
//! with the same key, and the orchestrator recognises it. One file, so that a key and the
//! certificate of another one cannot be together.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use api_client::Identity;
use api_types::joining::NodeCertificate;
use api_types::{NodeId, Timestamp};
use pki::{AuthorityError, NodeKey};
use serde::{Deserialize, Serialize};

use crate::host::clock;

/// Only the agent itself may read its private key.
const FILE_MODE: u32 = 0o600;

#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("cannot access {}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{} does not hold this node's identity ({reason}); restore it from a backup, or move it \
         away and join with a token made by `jobctl node token --for NODE`",
        path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    #[error("cannot make a key")]
    Key(#[source] AuthorityError),
}

/// The node's key, and its certificate once it has one.
#[derive(Debug)]
pub(crate) struct NodeIdentity {
    path: PathBuf,
    key: NodeKey,
    pub(crate) certified: Option<Certified>,
}

/// What the orchestrator gave the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Certified {
    #[serde(rename = "NodeID")]
    pub(crate) node_id: NodeId,
    /// With its chain, in PEM.
    certificate: String,
    /// The CA of the orchestrator, in PEM.
    #[serde(rename = "CA")]
    pub(crate) ca: String,
    /// By the steady clock.
    received: Timestamp,
    lifetime_seconds: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct IdentityFile {
    /// In PEM.
    private_key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    certified: Option<Certified>,
}

// === impl NodeIdentity ===

impl NodeIdentity {
    /// Reads the file, or makes a key and writes it.
    pub(crate) fn load_or_make(path: &Path) -> Result<Self, IdentityError> {
        let damaged = |reason| IdentityError::Damaged { path: path.to_owned(), reason };
        match fs::read(path) {
            Ok(bytes) => {
                let kept: IdentityFile =
                    serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))?;
                let key =
                    NodeKey::load(&kept.private_key).map_err(|error| damaged(error.to_string()))?;
                Ok(Self { path: path.to_owned(), key, certified: kept.certified })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let key = NodeKey::make().map_err(IdentityError::Key)?;
                let made = Self { path: path.to_owned(), key, certified: None };
                made.write(None)?;
                Ok(made)
            }
            Err(source) => Err(IdentityError::Io { path: path.to_owned(), source }),
        }
    }

    /// A request for a certificate of this key.
    pub(crate) fn request(&self) -> Result<String, IdentityError> {
        self.key.request().map_err(IdentityError::Key)
    }

    /// Keeps a certificate.
    pub(crate) fn accept(&mut self, answer: NodeCertificate) -> Result<(), IdentityError> {
        let NodeCertificate { node_id, certificate, ca, lifetime_seconds } = answer;
        let received = clock::steady();
        let certified = Certified { node_id, certificate, ca, received, lifetime_seconds };
        self.write(Some(&certified))?;
        self.certified = Some(certified);
        Ok(())
    }

    /// What the node presents to the orchestrator, once it has a certificate.
    pub(crate) fn presented(&self) -> Option<Identity> {
        self.certified.as_ref().map(|certified| Identity {
            certificate: certified.certificate.clone(),
            key: self.key.private_key(),
        })
    }

    fn write(&self, certified: Option<&Certified>) -> Result<(), IdentityError> {
        let kept =
            IdentityFile { private_key: self.key.private_key(), certified: certified.cloned() };
        serde_json::to_vec(&kept)
            .map_err(io::Error::from)
            .and_then(|bytes| write(&self.path, &bytes))
            .map_err(|source| IdentityError::Io { path: self.path.clone(), source })
    }
}

// === impl Certified ===

impl Certified {
    /// When the node asks for a newer one: at two thirds of its life, so that the orchestrator may
    /// be away for the rest of it.
    pub(crate) fn renew_at(&self) -> Timestamp {
        self.received + self.lifetime() * 2 / 3
    }

    pub(crate) fn lifetime(&self) -> Duration {
        Duration::from_secs(self.lifetime_seconds)
    }
}

/// Atomically: after a crash all of the file is there, or the one before.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE_MODE)
        .open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_kept_with_its_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.json");
        let mut first = NodeIdentity::load_or_make(&path).unwrap();
        assert!(first.presented().is_none());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        let node_id = NodeId::from_uuid(uuid::Uuid::from_u128(1));
        let (certificate, ca) = ("certificate".to_owned(), "ca".to_owned());
        first.accept(NodeCertificate { node_id, certificate, ca, lifetime_seconds: 30 }).unwrap();

        let again = NodeIdentity::load_or_make(&path).unwrap();
        assert_eq!(again.presented(), first.presented());
        let certified = again.certified.unwrap();
        assert_eq!(certified.renew_at().since(certified.received), Duration::from_secs(20));
    }

    #[test]
    fn a_damaged_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity.json");
        for content in ["", "{}", r#"{"PrivateKey":"x"}"#] {
            fs::write(&path, content).unwrap();
            let error = NodeIdentity::load_or_make(&path).unwrap_err();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{content}: {error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }
}
