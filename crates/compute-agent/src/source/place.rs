//! Where one input goes on the node's disk, how large it may be, and what the task sees of it.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use api_types::quantity::Bytes;
use api_types::source::InputSource;

use crate::attempts::Setback;
use crate::disk::{Disk, LimitedBy};
use crate::execution::Failure;
use crate::executor::MountedInput;

/// How many bytes the inputs of one task may have, and how many came so far.
#[derive(Debug)]
pub(crate) struct Quota {
    limit_bytes: u64,
    limited_by: LimitedBy,
    taken_bytes: AtomicU64,
    /// What will be taken when all has come whose size was told beforehand.
    expected_bytes: AtomicU64,
    disk: Disk,
}

/// The place of one input: a directory of its own, on the disk of the data directory.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    root: PathBuf,
    target: String,
    alias: String,
}

// === impl Quota ===

impl Quota {
    pub(crate) fn new(limit_bytes: u64, limited_by: LimitedBy, disk: Disk) -> Self {
        let (taken_bytes, expected_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limit_bytes, limited_by, taken_bytes, expected_bytes, disk }
    }

    /// Debits what is about to be written, or refuses it.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), Setback> {
        self.disk.take(bytes)?;
        self.count(bytes)
    }

    /// Debits what is on the disk already, or refuses it.
    pub(crate) fn count(&self, bytes: u64) -> Result<(), Setback> {
        let before = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limit_bytes {
            return Ok(());
        }
        self.give_back(bytes);
        Err(Setback::Lasting(self.too_large()))
    }

    /// Credits what was thrown away again.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Hears how much is about to come, or refuses it before anything does.
    pub(crate) fn expect(&self, bytes: u64) -> Result<(), Setback> {
        if bytes > self.left_bytes() {
            return Err(Setback::Lasting(self.too_large()));
        }
        self.expected_bytes.store(self.taken_bytes() + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// In words: what came since so much was taken, and of how much if that is known.
    pub(crate) fn how_far(&self, since_bytes: u64) -> String {
        let come = Bytes(self.taken_bytes().saturating_sub(since_bytes));
        let expected = self.expected_bytes.load(Ordering::Relaxed).saturating_sub(since_bytes);
        match (come.0, expected) {
            (0, 0) => "nothing has come yet".to_owned(),
            (_, 0) => format!("{come} so far"),
            (_, expected) => format!("{come} of {}", Bytes(expected)),
        }
    }

    pub(crate) fn left_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.taken_bytes())
    }

    pub(crate) fn disk(&self) -> &Disk {
        &self.disk
    }

    pub(crate) fn too_large(&self) -> Failure {
        let limit = Bytes(self.limit_bytes);
        match self.limited_by {
            LimitedBy::Task => Failure::task(format!(
                "the inputs are larger than the {limit} of the task's Resources.Disk; ask for more"
            )),
            LimitedBy::Node => Failure::node(format!(
                "the inputs are larger than the {limit} that this node gives a task that asks for \
                 none; ask for enough with Resources.Disk"
            )),
        }
    }
}

// === impl Place ===

impl Place {
    pub(crate) fn new(root: PathBuf, input: &InputSource) -> Self {
        Self { root, target: input.target.clone(), alias: input.alias.clone() }
    }

    /// What an input that is a directory, or whose file lies in one, fills.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join("directory")
    }

    /// A name beside the directory, for what is under way or only needed here.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The name of an input that is a file: its Alias, else `otherwise` as far as that is one.
    pub(crate) fn file_name(&self, otherwise: &str, default: &str) -> String {
        if !self.alias.is_empty() {
            return self.alias.clone();
        }
        match check_file_name(otherwise) {
            Ok(()) => otherwise.to_owned(),
            Err(_) => default.to_owned(),
        }
    }

    /// Where the file of an input that is one goes; makes the directory that it lies in.
    pub(crate) fn make_file(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory();
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        Ok(directory.join(name))
    }

    /// The file of this name: the task sees it at Target itself, or in the directory Target when
    /// that ends with `/`.
    pub(crate) fn mounted_file(&self, name: &str) -> MountedInput {
        match self.target.strip_suffix('/') {
            Some(target) => mounted(&self.directory(), target),
            None => mounted(&self.directory().join(name), &self.target),
        }
    }

    /// The directory, which the task sees at Target.
    pub(crate) fn mounted_directory(&self) -> MountedInput {
        mounted(&self.directory(), self.target.trim_end_matches('/'))
    }
}

fn mounted(source: &Path, target: &str) -> MountedInput {
    MountedInput { source: source.to_owned(), target: target.to_owned(), writable: false }
}

/// Whether this can be the name of a file in a directory.
pub(crate) fn check_file_name(name: &str) -> Result<(), String> {
    /// What file systems take.
    const MAX_BYTES: usize = 255;
    if name.is_empty()
        || name == "."
        || name == ".."
        || name.len() > MAX_BYTES
        || name.contains(['/', '\0'])
    {
        return Err(format!("'{name}' is not a file name"));
    }
    Ok(())
}

/// As [`make_readable`], for a whole tree; what may be run stays so.
pub(crate) fn make_tree_readable(directory: &Path) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(directory)? {
        let (path, kind) = entry.and_then(|entry| Ok((entry.path(), entry.file_type()?)))?;
        if kind.is_dir() {
            make_tree_readable(&path)?;
        } else if kind.is_file() {
            let mode = fs::metadata(&path)?.permissions().mode();
            let run = if mode & 0o100 == 0 { 0 } else { 0o111 };
            fs::set_permissions(&path, Permissions::from_mode((mode & 0o755) | 0o444 | run))?;
        }
    }
    Ok(())
}

/// What came is for the task's user, who is not the agent's.
pub(crate) fn make_readable(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_far_a_fetch_is_counts_from_its_own_beginning() {
        let directory = tempfile::tempdir().unwrap();
        let quota = Quota::new(10_000, LimitedBy::Task, Disk::new(directory.path(), 0));
        assert_eq!(quota.how_far(0), "nothing has come yet");
        quota.expect(2_000).unwrap();
        assert_eq!(quota.how_far(0), "0 B of 2 kB");
        quota.take(2_000).unwrap();
        assert_eq!(quota.how_far(0), "2 kB of 2 kB");
        // The next input, of which nobody knows how large it is.
        assert_eq!(quota.how_far(2_000), "nothing has come yet");
        quota.take(1_000).unwrap();
        assert_eq!(quota.how_far(2_000), "1 kB so far");
        // And one of which the server tells.
        quota.expect(4_000).unwrap();
        quota.take(1_500).unwrap();
        assert_eq!(quota.how_far(3_000), "1.5 kB of 4 kB");
        assert!(quota.expect(6_000).is_err(), "5,500 are left");
    }
}
