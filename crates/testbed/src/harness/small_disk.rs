//! A file system of a few megabytes that a test can fill.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// Size of a write; the last writes are smaller, until no byte fits.
const PIECE_BYTES: usize = 64 << 10;

/// A mounted file system; dropping it unmounts it even if files are open.
#[derive(Debug)]
pub struct SmallDisk {
    directory: TempDir,
}

// === impl SmallDisk ===

impl SmallDisk {
    /// Mounts a file system. Without the permission it prints the reason and returns `None`, or
    /// panics when `CI` is set.
    pub fn mount(megabytes: u32) -> Option<Self> {
        let directory = tempfile::Builder::new()
            .prefix("testbed-disk-")
            .tempdir()
            .unwrap_or_else(|error| panic!("cannot create a temporary directory: {error}"));
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "testbed"])
            .arg(directory.path())
            .output()
            .map_err(|error| error.to_string())
            .and_then(|output| match output.status.success() {
                true => Ok(()),
                false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            });
        match mounted {
            Ok(()) => Some(Self { directory }),
            Err(reason) if std::env::var_os("CI").is_some() => panic!("cannot mount: {reason}"),
            Err(reason) => {
                eprintln!("skipped: cannot mount a small disk: {reason}");
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Fills all free space, and on another call the space freed since.
    pub fn fill(&self) {
        let filling = OpenOptions::new().create(true).append(true).open(self.filling());
        let mut filling = filling.unwrap_or_else(|error| panic!("{error}"));
        let mut piece = vec![b'x'; PIECE_BYTES];
        while !piece.is_empty() {
            if filling.write_all(&piece).is_err() {
                piece.truncate(piece.len() / 2);
            }
        }
    }

    /// Frees the space again.
    pub fn free(&self) {
        fs::remove_file(self.filling()).unwrap_or_else(|error| panic!("{error}"));
    }

    fn filling(&self) -> PathBuf {
        self.path().join("filling")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("--lazy").arg(self.path()).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} may stay mounted", self.path().display());
        }
    }
}
