//! Which task uses up a disk, as far as measurements tell.
//!
//! What the files of a task take is measured first. A task can use a disk without files that
//! anything shows: it holds a deleted one open, or makes very many empty ones. So where the files of
//! all tasks do not explain what is gone, what their processes wrote counts, and then how many
//! entries they made.

use api_types::ExecutionId;

/// What is short on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Short {
    Bytes,
    Inodes,
}

/// What a task has on a disk, or has gained there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Holding {
    /// In its files and its output.
    pub(super) visible_bytes: u64,
    /// That its processes have written, whether a file still has it or not.
    pub(super) written_bytes: u64,
    /// Files and directories.
    pub(super) entries: u64,
}

/// Why a task is taken for the one that grows most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    Visible,
    Written,
    Entries,
}

/// Fewer new entries say nothing.
const MANY_ENTRIES: u64 = 1_000;

/// Less growth says nothing: every task writes a little.
const MUCH_BYTES: u64 = 1_000_000;

// === impl Holding ===

impl Holding {
    /// What was gained since then.
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            visible_bytes: self.visible_bytes.saturating_sub(before.visible_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            entries: self.entries.saturating_sub(before.entries),
        }
    }

    fn hidden_bytes(&self) -> u64 {
        self.written_bytes.saturating_sub(self.visible_bytes)
    }
}

/// The task that has grown most since this many bytes are missing from the disk; `None` if no
/// measurement shows any growth.
pub(super) fn culprit(
    short: Short,
    gone_bytes: u64,
    growth: &[(ExecutionId, Holding)],
) -> Option<(ExecutionId, Evidence)> {
    let most = |amount: fn(&Holding) -> u64, least: u64, evidence| {
        let largest = growth.iter().max_by_key(|(_, grown)| amount(grown))?;
        (amount(&largest.1) >= least).then_some((largest.0, evidence))
    };
    let visible = || most(|grown| grown.visible_bytes, MUCH_BYTES, Evidence::Visible);
    let hidden = || most(Holding::hidden_bytes, MUCH_BYTES, Evidence::Written);
    let entries = || most(|grown| grown.entries, MANY_ENTRIES, Evidence::Entries);
    match short {
        Short::Bytes => {
            let explained = growth.iter().map(|(_, grown)| grown.visible_bytes);
            let explained = explained.fold(0, u64::saturating_add);
            if explained >= gone_bytes / 2 {
                return visible().or_else(hidden).or_else(entries);
            }
            hidden().or_else(entries).or_else(visible)
        }
        Short::Inodes => entries().or_else(visible).or_else(hidden),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::execution_id as id;

    const MB: u64 = 1_000_000;

    fn grown(visible_megabytes: u64, written_megabytes: u64, entries: u64) -> Holding {
        let (visible_bytes, written_bytes) = (visible_megabytes * MB, written_megabytes * MB);
        Holding { visible_bytes, written_bytes, entries }
    }

    fn culprit_of(short: Short, growth: &[Holding]) -> Option<(ExecutionId, Evidence)> {
        let numbered: Vec<_> = (1..).map(id).zip(growth.iter().copied()).collect();
        culprit(short, 500 * MB, &numbered)
    }

    #[test]
    fn the_task_whose_files_grow_most_is_the_one_if_they_explain_the_loss() {
        let growth = [grown(100, 900, 9000), grown(300, 300, 1), grown(0, 0, 0)];
        assert_eq!(culprit_of(Short::Bytes, &growth), Some((id(2), Evidence::Visible)));
        // Many that each grow a little.
        let growth: Vec<_> = (0..20).map(|number| grown(20 + number, 0, 0)).collect();
        assert_eq!(culprit_of(Short::Bytes, &growth), Some((id(20), Evidence::Visible)));
    }

    #[test]
    fn a_deleted_open_file_is_found_by_what_its_task_wrote() {
        let growth = [grown(60, 60, 9), grown(0, 500, 9), grown(70, 80, 9)];
        assert_eq!(culprit_of(Short::Bytes, &growth), Some((id(2), Evidence::Written)));
    }

    #[test]
    fn many_empty_files_are_found_by_their_number() {
        let growth = [grown(0, 0, 10), grown(0, 0, 40_000), grown(9, 9, 100)];
        assert_eq!(culprit_of(Short::Inodes, &growth), Some((id(2), Evidence::Entries)));
        // Their directories take the bytes.
        assert_eq!(culprit_of(Short::Bytes, &growth), Some((id(2), Evidence::Entries)));
    }

    #[test]
    fn no_task_is_blamed_without_evidence() {
        for short in [Short::Bytes, Short::Inodes] {
            assert_eq!(culprit_of(short, &[grown(0, 0, 12), grown(0, 0, 3)]), None);
            assert_eq!(culprit_of(short, &[]), None);
        }
        // If others fill the disk, the task that grows most is stopped nevertheless.
        let growth = [grown(2, 2, 0), grown(5, 5, 0)];
        assert_eq!(culprit_of(Short::Bytes, &growth), Some((id(2), Evidence::Visible)));
    }

    #[test]
    fn growth_is_what_was_gained() {
        let before = grown(400, 700, 10);
        assert_eq!(grown(500, 900, 15).since(before), grown(100, 200, 5));
        assert_eq!(grown(100, 0, 1).since(before), Holding::default());
    }
}
