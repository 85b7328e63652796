//! `[disk]`: what is reserved of the disks, for the agent and for all tasks together.

use serde::Deserialize;

use super::values;
use crate::host::disk::Space;

/// The reserve for tasks is at most this fraction of a disk, so that small ones are usable. It is
/// more than the agent's own, so that a task ends before work is refused.
const LARGEST_PART_FOR_TASKS: u64 = 8;

/// The disk space that the agent reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiskSettings {
    /// Free bytes at which inputs, outputs and archives stop, so that the ledger stays writable;
    /// at most a tenth of the file system.
    #[serde(deserialize_with = "values::size")]
    pub reserve_bytes: u64,
    /// Free bytes of the disk that tasks write to, below which the task that grows most is stopped;
    /// at most an eighth of the file system. 0 for none.
    #[serde(deserialize_with = "values::size")]
    pub task_reserve_bytes: u64,
    /// The same for inodes.
    pub task_reserve_inodes: u64,
}

/// The reserve of one disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TaskReserve {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

// === impl DiskSettings ===

impl DiskSettings {
    /// What is reserved of a disk for all its tasks.
    pub(crate) fn task_reserve(&self, space: &Space) -> TaskReserve {
        TaskReserve {
            bytes: self.task_reserve_bytes.min(space.total_bytes / LARGEST_PART_FOR_TASKS),
            inodes: self.task_reserve_inodes.min(space.total_inodes / LARGEST_PART_FOR_TASKS),
        }
    }
}

impl Default for DiskSettings {
    /// The agent keeps far more than its ledger ever needs, since writes between two disk checks use
    /// it too. What is kept for tasks is what a fast disk writes while one of them is found and
    /// stopped.
    fn default() -> Self {
        Self {
            reserve_bytes: 256_000_000,
            task_reserve_bytes: 1_000_000_000,
            task_reserve_inodes: 50_000,
        }
    }
}
