//! The entries of this boot of the machine, which are the only ones that are trusted.
//!
//! Nothing syncs an entry, and so a power cut may leave files without content under a valid key.
//! Each boot has a separate directory: what another one left is never found, even where it
//! cannot be removed.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tracing::{info, warn};

use crate::host::tree::remove_all;

/// The directory of a boot whose ID cannot be read; no entry in it outlives the agent.
const UNKNOWN: &str = "unknown";

/// Where the entries of this boot are. Removes those of others, and what an agent that was killed
/// was adding or removing.
pub(crate) fn of_this_boot(root: &Path, boot_id: &str) -> PathBuf {
    let name = if boot_id.is_empty() { UNKNOWN } else { boot_id };
    let own = root.join(name);
    match open(root, &own) {
        Ok(0) => {}
        Ok(count) => info!(count, "removed what another boot left in the cache of inputs"),
        Err(error) => warn!(%error, "cannot remove old inputs from the cache"),
    }
    own
}

/// Returns how many directories of others it has removed.
fn open(root: &Path, own: &Path) -> io::Result<usize> {
    fs::create_dir_all(root)?;
    let mut removed = 0;
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if path != own || path.file_name() == Some(OsStr::new(UNKNOWN)) {
            remove_all(&path)?;
            removed += 1;
        }
    }
    fs::create_dir_all(own)?;
    for entry in fs::read_dir(own)? {
        let path = entry?.path();
        if path.extension().is_some() {
            remove_all(&path)?;
        }
    }
    Ok(removed)
}
