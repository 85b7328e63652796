//! The node's disk: how much of it tasks may have, and how much the agent keeps for itself.
//!
//! Inputs, outputs and archives stop while there is still a reserve, so that the ledger can be
//! written: an agent that cannot write it can neither tell that the disk is full nor remove what
//! fills it.

use std::io;
use std::path::{Path, PathBuf};

use api_types::quantity::Bytes;

use crate::execution::Failure;

/// The reserve is never more than this part of the file system, so that small ones are of use.
const LARGEST_PART_KEPT: u64 = 10;

/// The file system of the data directory.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    root: PathBuf,
    reserve_bytes: u64,
    /// What a test says is free.
    #[cfg(test)]
    free_bytes: Option<u64>,
}

/// What may be written would go into the reserve.
#[derive(Debug, thiserror::Error)]
#[error("{} are free, of which the agent keeps {} for itself", Bytes(*free_bytes), Bytes(*reserve_bytes))]
struct NoRoom {
    free_bytes: u64,
    reserve_bytes: u64,
}

/// Who set the limit of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitedBy {
    /// The task's own `Resources.Disk`.
    Task,
    /// The node's settings, for a task that names no disk.
    Node,
}

/// What a task may write, and print, in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutputLimit {
    limit_bytes: u64,
    limited_by: LimitedBy,
    /// Of the task's own disk, what its inputs take.
    inputs_bytes: u64,
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

    /// Whether so much more may be written; otherwise an error of the kind `StorageFull`.
    pub(crate) fn take(&self, bytes: u64) -> io::Result<()> {
        let stat = rustix::fs::statvfs(&self.root)?;
        let free_bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
        #[cfg(test)]
        let free_bytes = self.free_bytes.unwrap_or(free_bytes);
        let total_bytes = stat.f_blocks.saturating_mul(stat.f_frsize);
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

/// Whether an error says that the disk is full.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a user is told of an error of the node's disk.
pub(crate) fn failure(error: &io::Error) -> Failure {
    if !is_full(error) {
        return Failure::node(format!("the node's disk cannot take it: {error}"));
    }
    let known = error.get_ref().and_then(|inner| inner.downcast_ref::<NoRoom>());
    let numbers = known.map_or_else(String::new, |no_room| format!(" ({no_room})"));
    Failure::node(format!(
        "no space left on the node's disk{numbers}; make room on it, or let the task run on \
         another node"
    ))
}

// === impl OutputLimit ===

impl OutputLimit {
    /// Of a task that asked for so much disk, 0 for none, and whose inputs take so much.
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

    /// What is left once so much is written.
    pub(crate) fn left_after(&self, written_bytes: u64) -> u64 {
        self.limit_bytes.saturating_sub(self.inputs_bytes).saturating_sub(written_bytes)
    }

    /// Why a task has failed that wrote so much to `place`; none while it may.
    pub(crate) fn judge(&self, place: &str, written_bytes: u64) -> Option<Failure> {
        let may = self.limit_bytes.saturating_sub(self.inputs_bytes);
        (written_bytes > may).then(|| self.beyond(place, Bytes(written_bytes).to_string().as_str()))
    }

    /// The failure of a task that wrote `size`, in words, to `place`: its own, whoever set the
    /// limit, since it would write as much anywhere.
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
    fn a_full_disk_is_called_a_full_disk() {
        let full = io::Error::from_raw_os_error(28);
        let words = "no space left on the node's disk; make room on it";
        assert!(failure(&full).message.starts_with(words), "{}", failure(&full).message);
    }

    #[test]
    fn the_reserve_is_out_of_reach_and_told() {
        let root = tempfile::tempdir().unwrap();
        let all = Disk::new(root.path(), 0);
        all.take(1).unwrap();
        assert!(all.shortage().is_none());
        let error = all.take(u64::MAX).unwrap_err();
        assert!(is_full(&error), "{error:?}");
        let told = failure(&error).message;
        assert!(told.contains("are free, of which the agent keeps 0 B for itself"), "{told}");
    }

    #[test]
    fn the_inputs_of_a_task_take_from_its_own_disk_only() {
        let own = OutputLimit::new(1000, 400, 9);
        assert_eq!((own.left_after(100), own.judge("x", 600)), (500, None));
        let told = own.judge("'/out'", 601).unwrap().message;
        let words = "'/out' has 601 B, more than the 1 kB of the task's Resources.Disk, of which \
                     its inputs take 400 B; ask for more";
        assert_eq!(told, words);
        let of_node = OutputLimit::new(0, 400, 9);
        assert_eq!((of_node.left_after(0), of_node.is_the_tasks_own()), (9, false));
        assert!(of_node.judge("x", 10).unwrap().message.contains("the 9 B that this node gives"));
    }
}
