//! Small files of the data directory that are written as a whole.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Only the orchestrator itself may read what is in its directory.
pub(crate) const DIRECTORY_MODE: u32 = 0o700;

/// Of files that hold a secret.
pub(crate) const SECRET_MODE: u32 = 0o600;

/// Writes the file atomically, with its directory: after a crash all of it is there, or nothing.
pub(crate) fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(dir)?;
    let temporary = path.with_extension("new");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
    // Whatever the umask, and whatever the mode of a file that a crash left.
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    File::open(dir)?.sync_all()
}
