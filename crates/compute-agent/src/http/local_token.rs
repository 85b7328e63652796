//! The token for a person who is at the node: made at each start, and left in the data directory.
//!
//! It opens this agent's own API and nothing else, and it never leaves the node. So no credentials of
//! the cluster have to be shown to a node in order to read there what it runs.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Begins such tokens.
const PREFIX: &str = "ja1_";

const SECRET_BYTES: usize = 32;

/// Only the agent's user, and root, may read it.
const FILE_MODE: u32 = 0o600;

/// What is kept of the token: its hash, so that comparing takes the same time for every guess.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalToken([u8; 32]);

/// The token cannot be left for people at the node.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the token of the agent's own API to {}", path.display())]
pub struct LocalTokenError {
    path: PathBuf,
    source: io::Error,
}

// === impl LocalToken ===

impl LocalToken {
    /// Makes a token and writes it into this file, in place of that of the last start.
    pub(crate) fn write(path: &Path) -> Result<Self, LocalTokenError> {
        Self::replace(path).map_err(|source| LocalTokenError { path: path.to_owned(), source })
    }

    fn replace(path: &Path) -> io::Result<Self> {
        let mut secret = [0; SECRET_BYTES];
        SystemRandom::new().fill(&mut secret).map_err(|_| io::Error::other("no random bytes"))?;
        let text = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(secret));
        let new = path.with_extension("new");
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.write_all(b"\n")?;
        fs::rename(&new, path)?;
        Ok(Self(hash(&text)))
    }

    /// Whether the text is meant as such a token.
    pub(super) fn is_meant(text: &str) -> bool {
        text.starts_with(PREFIX)
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.0 == hash(text)
    }
}

fn hash(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_start_has_its_own_token_for_the_agents_user_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.token");
        let read = || fs::read_to_string(&path).unwrap().trim().to_owned();
        let first = LocalToken::write(&path).unwrap();
        let of_first = read();
        assert!(first.is(&of_first) && LocalToken::is_meant(&of_first));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
        // What a crash left is replaced, whatever its mode.
        fs::write(path.with_extension("new"), "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let second = LocalToken::write(&path).unwrap();
        assert!(second.is(&read()) && !second.is(&of_first) && !second.is(""));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, FILE_MODE);
    }
}
