//! Why the keys of the cluster cannot be used.

use std::io;
use std::path::PathBuf;

use control_plane::records::RecordKey;
use pki::AuthorityError;

use super::sealing::NoRandom;
use crate::driver::CallError;

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
    #[error("{} is missing, or has the key that is in use", path.display())]
    NoNextClusterKey { path: PathBuf },
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
pub(super) fn named(key: &RecordKey) -> String {
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
            | Self::NoNextClusterKey { .. }
            | Self::Damaged { .. }
            | Self::Authority { .. }
            | Self::TwoAuthorities { .. }
            | Self::Make(_)
            | Self::Random(_)
            | Self::Store(_) => false,
        }
    }
}
