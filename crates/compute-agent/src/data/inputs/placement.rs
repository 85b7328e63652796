//! The location of one input on the node's disk, its size limit, and its mount point.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use agent_core::execution::Failure;
use api_types::quantity::Bytes;
use api_types::source::InputSource;
use serde::{Deserialize, Serialize};

use crate::data::retry::AttemptError;
use crate::host::disk::{Disk, LimitedBy};

/// The byte limit of the inputs of one task, and the bytes taken so far.
#[derive(Debug)]
pub(crate) struct Quota {
    limit_bytes: u64,
    limited_by: LimitedBy,
    taken_bytes: AtomicU64,
    /// The bytes taken once everything with an announced size has arrived.
    expected_bytes: AtomicU64,
    disk: Disk,
}

/// A quota on its way to the process of a fetch.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QuotaRecord {
    limit_bytes: u64,
    limited_by: LimitedBy,
    taken_bytes: u64,
    disk: Disk,
}

/// The destination of one input: a separate directory, on the disk of the data directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct InputDestination {
    root: PathBuf,
    target: String,
    alias: String,
}

/// An input on this node's disk, and its path in the task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountedInput {
    pub(crate) source: PathBuf,
    pub(crate) target: String,
    /// Only for inputs that belong to the node rather than to the execution.
    pub(crate) writable: bool,
}

// === impl Quota ===

impl Quota {
    pub(crate) fn new(limit_bytes: u64, limited_by: LimitedBy, disk: Disk) -> Self {
        let (taken_bytes, expected_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limit_bytes, limited_by, taken_bytes, expected_bytes, disk }
    }

    pub(crate) fn from_record(record: &QuotaRecord) -> Self {
        let quota = Self::new(record.limit_bytes, record.limited_by, record.disk.clone());
        quota.follow(record.taken_bytes, 0);
        quota
    }

    pub(crate) fn record(&self) -> QuotaRecord {
        let Self { limit_bytes, limited_by, ref disk, .. } = *self;
        let taken_bytes = self.taken_bytes();
        QuotaRecord { limit_bytes, limited_by, taken_bytes, disk: disk.clone() }
    }

    /// Takes over the counts of the process that fetches.
    pub(crate) fn follow(&self, taken_bytes: u64, expected_bytes: u64) {
        self.taken_bytes.store(taken_bytes, Ordering::Relaxed);
        self.expected_bytes.store(expected_bytes, Ordering::Relaxed);
    }

    pub(crate) fn expected_bytes(&self) -> u64 {
        self.expected_bytes.load(Ordering::Relaxed)
    }

    /// Debits bytes before they are written, or refuses them.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), AttemptError> {
        self.disk.take(bytes)?;
        self.count(bytes)
    }

    /// Debits bytes that are on the disk already, or refuses them.
    pub(crate) fn count(&self, bytes: u64) -> Result<(), AttemptError> {
        let before = self.taken_bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= self.limit_bytes {
            return Ok(());
        }
        self.give_back(bytes);
        Err(AttemptError::Permanent(self.too_large()))
    }

    /// Credits bytes that were discarded.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Announces the size of a transfer, or refuses it before it starts.
    pub(crate) fn expect(&self, bytes: u64) -> Result<(), AttemptError> {
        if bytes > self.left_bytes() {
            return Err(AttemptError::Permanent(self.too_large()));
        }
        self.expected_bytes.store(self.taken_bytes() + bytes, Ordering::Relaxed);
        Ok(())
    }

    /// In words: bytes since `since_bytes`, and the total if it is known.
    pub(crate) fn progress_text(&self, since_bytes: u64) -> String {
        let come = Bytes(self.taken_bytes().saturating_sub(since_bytes));
        let expected = self.expected_bytes.load(Ordering::Relaxed).saturating_sub(since_bytes);
        match (come.0, expected) {
            (0, 0) => "nothing received yet".to_owned(),
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
            LimitedBy::Node => Failure::fetch(format!(
                "the inputs are larger than the {limit} that this node gives a task that asks for \
                 none; ask for enough with Resources.Disk"
            )),
        }
    }
}

// === impl InputDestination ===

impl InputDestination {
    pub(crate) fn new(root: PathBuf, input: &InputSource) -> Self {
        Self { root, target: input.target.clone(), alias: input.alias.clone() }
    }

    /// Where everything of this input lies.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The directory of an input that is a directory, or that contains the input's file.
    pub(crate) fn directory(&self) -> PathBuf {
        self.root.join("directory")
    }

    /// A path next to the directory, for temporary data.
    pub(crate) fn temporary(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The name of an input that is a file: its Alias, or else `otherwise` if that is a valid
    /// name.
    pub(crate) fn file_name(&self, otherwise: &str, default: &str) -> String {
        if !self.alias.is_empty() {
            return self.alias.clone();
        }
        match check_file_name(otherwise) {
            Ok(()) => otherwise.to_owned(),
            Err(_) => default.to_owned(),
        }
    }

    /// The path of an input that is one file; creates the directory that contains it.
    pub(crate) fn make_file(&self, name: &str) -> io::Result<PathBuf> {
        let directory = self.directory();
        fs::create_dir_all(&directory)?;
        fs::set_permissions(&directory, Permissions::from_mode(0o755))?;
        Ok(directory.join(name))
    }

    /// The file of this name: the task sees it at Target, or, when that ends with `/`, in the
    /// directory Target next to what the image has there.
    pub(crate) fn mounted_file(&self, name: &str) -> MountedInput {
        let source = self.directory().join(name);
        match self.target.strip_suffix('/') {
            Some(target) => mounted(&source, &format!("{target}/{name}")),
            None => mounted(&source, &self.target),
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

/// Whether this is a valid name of a file in a directory.
pub(crate) fn check_file_name(name: &str) -> Result<(), String> {
    /// The limit of common file systems.
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

/// Inputs are for the task's user, who is not the agent's.
pub(crate) fn make_readable(file: &Path) -> io::Result<()> {
    fs::set_permissions(file, Permissions::from_mode(0o644))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_progress_of_a_fetch_counts_from_its_own_start() {
        let directory = tempfile::tempdir().unwrap();
        let quota = Quota::new(10_000, LimitedBy::Task, Disk::new(directory.path(), 0));
        assert_eq!(quota.progress_text(0), "nothing received yet");
        quota.expect(2_000).unwrap();
        assert_eq!(quota.progress_text(0), "0 B of 2 kB");
        quota.take(2_000).unwrap();
        assert_eq!(quota.progress_text(0), "2 kB of 2 kB");
        // The next input, whose size is unknown.
        assert_eq!(quota.progress_text(2_000), "nothing received yet");
        quota.take(1_000).unwrap();
        assert_eq!(quota.progress_text(2_000), "1 kB so far");
        // And one whose server announces its size.
        quota.expect(4_000).unwrap();
        quota.take(1_500).unwrap();
        assert_eq!(quota.progress_text(3_000), "1.5 kB of 4 kB");
        assert!(quota.expect(6_000).is_err(), "5,500 are left");
    }
}
