//! The node's disk: how much of it tasks may use, and how much the agent reserves.
//!
//! Inputs, outputs and archives stop before they reach the reserve, so that the ledger stays
//! writable: an agent that cannot write it can neither report that the disk is full nor remove
//! what fills it.

use std::io;
use std::path::{Path, PathBuf};

use agent_core::execution::Failure;
use api_types::quantity::Bytes;
use serde::{Deserialize, Serialize};

use super::tree::{IMMEASURABLE, Unbounded};

/// The reserve is at most this fraction of the file system, so that small ones are usable.
const LARGEST_PART_KEPT: u64 = 10;

/// The file system of the data directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Disk {
    root: PathBuf,
    reserve_bytes: u64,
    /// The free bytes that a test pretends.
    #[cfg(test)]
    #[serde(default)]
    free_bytes: Option<u64>,
}

/// What is free on a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Space {
    pub(crate) free_bytes: u64,
    pub(crate) total_bytes: u64,
    pub(crate) free_inodes: u64,
    /// 0 for a file system that makes them as they are needed.
    pub(crate) total_inodes: u64,
}

/// The write would use the reserve.
#[derive(Debug, thiserror::Error)]
#[error("{} are free, of which the agent keeps {} for itself", Bytes(*free_bytes), Bytes(*reserve_bytes))]
struct NoRoom {
    free_bytes: u64,
    reserve_bytes: u64,
}

/// What set the limit of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LimitedBy {
    /// The task's own `Resources.Disk`.
    Task,
    /// The node's settings, for a task that requests no disk.
    Node,
}

/// The limit of everything a task writes and prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    limit_bytes: u64,
    limited_by: LimitedBy,
    /// The part of the task's own disk that its inputs use.
    inputs_bytes: u64,
}

// === impl Space ===

impl Space {
    pub(crate) fn measure(path: &Path) -> io::Result<Self> {
        let stat = rustix::fs::statvfs(path)?;
        Ok(Self {
            free_bytes: stat.f_bavail.saturating_mul(stat.f_frsize),
            total_bytes: stat.f_blocks.saturating_mul(stat.f_frsize),
            free_inodes: stat.f_favail,
            total_inodes: stat.f_files,
        })
    }
}

// === impl Disk ===

impl Disk {
    pub(crate) fn new(root: &Path, reserve_bytes: u64) -> Self {
        Self {
            root: root.to_owned(),
            reserve_bytes,
            #[cfg(test)]
            free_bytes: None,
        }
    }

    #[cfg(test)]
    pub(crate) fn with_free_bytes(free_bytes: u64) -> Self {
        Self { free_bytes: Some(free_bytes), ..Self::new(Path::new("/"), 0) }
    }

    /// Whether this many more bytes may be written; otherwise an error of the kind `StorageFull`.
    pub(crate) fn take(&self, bytes: u64) -> io::Result<()> {
        let Space { free_bytes, total_bytes, .. } = Space::measure(&self.root)?;
        #[cfg(test)]
        let free_bytes = self.free_bytes.unwrap_or(free_bytes);
        let reserve_bytes = self.reserve_bytes.min(total_bytes / LARGEST_PART_KEPT);
        if free_bytes >= reserve_bytes.saturating_add(bytes) {
            return Ok(());
        }
        Err(io::Error::new(io::ErrorKind::StorageFull, NoRoom { free_bytes, reserve_bytes }))
    }

    /// Why nothing more may be written, if so.
    pub(crate) fn shortage(&self) -> Option<io::Error> {
        self.take(1).err()
    }
}

/// Whether an error means that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The failure to report for an error of the node's disk.
pub(crate) fn failure(error: &io::Error) -> Failure {
    if !is_full(error) {
        // It may be about a name that no disk takes.
        return Failure::refused(format!("the node's disk cannot take it: {error}"));
    }
    let known = error.get_ref().and_then(|inner| inner.downcast_ref::<NoRoom>());
    let numbers = known.map_or_else(String::new, |no_room| format!(" ({no_room})"));
    Failure::node(format!(
        "no space left on the node's disk{numbers}; free space on it, or let the task run on \
         another node"
    ))
}

// === impl OutputLimit ===

impl OutputLimit {
    /// The limit of a task that requests this much disk (0 for none) and whose inputs use this
    /// much.
    pub(crate) fn new(disk_bytes: u64, inputs_bytes: u64, results_max_bytes: u64) -> Self {
        match disk_bytes {
            0 => Self {
                limit_bytes: results_max_bytes,
                limited_by: LimitedBy::Node,
                inputs_bytes: 0,
            },
            disk_bytes => {
                Self { limit_bytes: disk_bytes, limited_by: LimitedBy::Task, inputs_bytes }
            }
        }
    }

    pub(crate) fn is_the_tasks_own(&self) -> bool {
        self.limited_by == LimitedBy::Task
    }

    /// The limit, in words that follow "more than".
    pub(crate) fn words(&self) -> String {
        let limit = Bytes(self.limit_bytes);
        match self.limited_by {
            LimitedBy::Task => format!("the {limit} of the task's Resources.Disk"),
            LimitedBy::Node => {
                format!("the {limit} that this node gives a task that asks for none")
            }
        }
    }

    /// The bytes left after this many are written.
    pub(crate) fn left_after(&self, written_bytes: u64) -> u64 {
        self.limit_bytes.saturating_sub(self.inputs_bytes).saturating_sub(written_bytes)
    }

    /// Why a task that wrote this much to `place` has failed; none while it is within its limit.
    pub(crate) fn check(&self, place: &str, written_bytes: u64) -> Option<Failure> {
        if written_bytes == IMMEASURABLE {
            return Some(Failure::task(format!("{place} {Unbounded}; use fewer")));
        }
        let may = self.limit_bytes.saturating_sub(self.inputs_bytes);
        (written_bytes > may).then(|| self.beyond(place, Bytes(written_bytes).to_string().as_str()))
    }

    /// The failure of a task that wrote `size`, as text, to `place`. It counts as the task's own
    /// failure regardless of who set the limit, since the task would write as much on any node.
    pub(crate) fn beyond(&self, place: &str, size: &str) -> Failure {
        let (limit, inputs) = (Bytes(self.limit_bytes), Bytes(self.inputs_bytes));
        Failure::task(match (self.limited_by, self.inputs_bytes) {
            (LimitedBy::Task, 0) => format!(
                "{place} has {size}, more than the {limit} of the task's Resources.Disk; ask for \
                 more"
            ),
            (LimitedBy::Task, _) => format!(
                "{place} has {size}, more than the {limit} of the task's Resources.Disk, of which \
                 its inputs take {inputs}; ask for more"
            ),
            (LimitedBy::Node, _) => format!(
                "{place} has {size}, more than the {limit} that this node gives a task that asks \
                 for none; ask for enough with Resources.Disk"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported_as_such() {
        let full = io::Error::from_raw_os_error(28);
        let words = "no space left on the node's disk; free space on it";
        assert!(failure(&full).message.starts_with(words), "{}", failure(&full).message);
    }

    #[test]
    fn the_reserve_is_never_used_and_the_failure_names_it() {
        let root = tempfile::tempdir().unwrap();
        let all = Disk::new(root.path(), 0);
        all.take(1).unwrap();
        assert!(all.shortage().is_none());
        let error = all.take(u64::MAX).unwrap_err();
        assert!(is_full(&error), "{error:?}");
        let message = failure(&error).message;
        assert!(message.contains("are free, of which the agent keeps 0 B for itself"), "{message}");
    }

    #[test]
    fn inputs_count_towards_the_tasks_own_disk_only() {
        let own = OutputLimit::new(1000, 400, 9);
        assert_eq!((own.left_after(100), own.check("x", 600)), (500, None));
        let message = own.check("'/out'", 601).unwrap().message;
        let words = "'/out' has 601 B, more than the 1 kB of the task's Resources.Disk, of which \
                     its inputs take 400 B; ask for more";
        assert_eq!(message, words);
        let of_node = OutputLimit::new(0, 400, 9);
        assert_eq!((of_node.left_after(0), of_node.is_the_tasks_own()), (9, false));
        assert!(of_node.check("x", 10).unwrap().message.contains("the 9 B that this node gives"));
    }
}
