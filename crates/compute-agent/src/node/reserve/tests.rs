//! Which task ends when a disk runs low.

use std::collections::BTreeMap;

use api_types::protocol::FailureCause;
use futures_util::stream;
use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::runtime::{Executor, Hidden, OutputKeeping};
use crate::testing::{OutputAlone, execution_id, work};

const MB: u64 = 1_000_000;

/// A disk of a gigabyte, of which an eighth is reserved.
fn space(free_megabytes: u64, free_inodes: u64) -> Space {
    Space {
        free_bytes: free_megabytes * MB,
        total_bytes: 1000 * MB,
        free_inodes,
        total_inodes: 400_000,
    }
}

fn used(visible_megabytes: u64, written_megabytes: u64, entries: u64) -> (u64, Hidden) {
    (visible_megabytes * MB, Hidden { written_bytes: written_megabytes * MB, entries })
}

struct Fixture {
    reserve: Reserve,
    disk: Disk,
    used: Arc<Mutex<BTreeMap<ExecutionId, (u64, Hidden)>>>,
    _root: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let engine = OutputAlone::new(OutputKeeping::OnThisNode, |_| stream::empty());
        let used = Arc::clone(&engine.used);
        let engines = Engines::new([(EngineType::Noop, Box::new(engine) as Box<dyn Executor>)]);
        let reserve = Reserve::new(&engines, &Arc::default(), root.path(), &Settings::default());
        let device = Device::containing(root.path()).unwrap();
        let engines = vec![EngineType::Noop];
        let disk = Disk::new(root.path().to_owned(), device, engines);
        Self { reserve, disk, used, _root: root }
    }

    fn uses(&self, all: &[(u128, (u64, Hidden))]) {
        let all = all.iter().map(|(number, used)| (execution_id(*number), *used));
        *self.used.lock().unwrap() = all.collect();
    }
}

#[tokio::test(start_paused = true)]
async fn growth_counts_and_not_what_a_task_has_held_for_long() {
    let mut fixture = Fixture::new();
    let holdings = Arc::clone(&fixture.used);
    let used_then = |all: &[(u128, (u64, Hidden))]| {
        let all = all.iter().map(|(number, used)| (execution_id(*number), *used));
        *holdings.lock().unwrap() = all.collect();
    };
    let Fixture { reserve, disk, .. } = &mut fixture;
    let (_one, mut of_one) = reserve.watch(execution_id(1), &work());
    let (other, mut of_other) = reserve.watch(execution_id(2), &work());
    used_then(&[(1, used(600, 600, 10)), (2, used(10, 10, 10))]);
    reserve.check(disk, &space(400, 400_000)).await;
    assert!(disk.before.is_none(), "there is enough");
    reserve.check(disk, &space(240, 400_000)).await;
    used_then(&[(1, used(601, 900, 10)), (2, used(130, 130, 10))]);
    reserve.check(disk, &space(130, 400_000)).await;
    assert_eq!(of_other.try_recv(), Err(TryRecvError::Empty), "it is low, and not short");
    let short = space(120, 400_000);
    let relieving = reserve.check(disk, &short);
    let ending = async {
        let failure = (&mut of_other).await.unwrap();
        drop(other);
        failure
    };
    let ((), failure) = tokio::join!(relieving, ending);
    let words = "120 MB are free on the disk of tasks, less than the reserve of 125 MB, and this task \
                 grew most: its files and output have 130 MB; free space on the node, or let the \
                 task run on another one";
    assert_eq!((failure.cause, failure.message.as_str()), (FailureCause::Node, words));
    assert_eq!(of_one.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_open_file_and_empty_files_end_the_task_that_made_them() {
    let mut small = (*work()).clone();
    small.resources.disk = 20 * MB;
    for (free, culprit, words) in [
        (
            space(100, 400_000),
            used(1, 500, 10),
            "100 MB are free on the disk of tasks, less than the reserve of 125 MB, and this task \
             grew most: its processes wrote (to files that may be deleted) 500 MB, more than the \
             20 MB of the task's Resources.Disk; ask for enough with Resources.Disk, or write less",
        ),
        (
            space(900, 40_000),
            used(0, 0, 200_000),
            "40000 inodes are free on the disk of tasks, less than the reserve of 50000, and this \
             task grew most: its files and directories take at least 819.2 MB (200000 of them), \
             more than the 20 MB of the task's Resources.Disk; ask for enough with \
             Resources.Disk, or write less",
        ),
    ] {
        let mut fixture = Fixture::new();
        fixture.uses(&[(1, used(12, 12, 50)), (2, culprit), (3, used(15, 15, 20))]);
        let Fixture { reserve, disk, .. } = &mut fixture;
        let (_one, mut of_one) = reserve.watch(execution_id(1), &small);
        let (other, mut of_other) = reserve.watch(execution_id(2), &small);
        let (_third, mut of_third) = reserve.watch(execution_id(3), &small);
        let ending = async {
            let failure = (&mut of_other).await.unwrap();
            drop(other);
            failure
        };
        let ((), failure) = tokio::join!(reserve.check(disk, &free), ending);
        assert_eq!((failure.cause, failure.message.as_str()), (FailureCause::Task, words));
        for neighbour in [&mut of_one, &mut of_third] {
            assert_eq!(neighbour.try_recv(), Err(TryRecvError::Empty));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn one_task_is_stopped_at_a_time() {
    let mut fixture = Fixture::new();
    fixture.uses(&[(1, used(300, 0, 0)), (2, used(500, 0, 0))]);
    let Fixture { reserve, disk, .. } = &mut fixture;
    let (_one, mut of_one) = reserve.watch(execution_id(1), &work());
    let (_other, mut of_other) = reserve.watch(execution_id(2), &work());
    // It does not end: after a while another one has to.
    reserve.check(disk, &space(10, 400_000)).await;
    assert!(of_other.try_recv().is_ok());
    assert_eq!(of_one.try_recv(), Err(TryRecvError::Empty));
    reserve.check(disk, &space(10, 400_000)).await;
    assert!(of_one.try_recv().is_ok());
    // Nothing is left to stop, and nothing tells of a task.
    reserve.check(disk, &space(10, 400_000)).await;
    assert!(disk.warned_at.is_some());
}

#[test]
fn the_reserve_is_a_part_of_a_small_disk_and_none_where_inodes_are_made_as_needed() {
    let settings = DiskSettings::default();
    assert_eq!(level(&space(126, 400_000), &settings), Level::Low);
    assert_eq!(level(&space(124, 400_000), &settings), Level::Short(Short::Bytes));
    assert_eq!(level(&space(251, 400_000), &settings), Level::Enough);
    assert_eq!(level(&space(900, 49_999), &settings), Level::Short(Short::Inodes));
    let without = Space { total_inodes: 0, free_inodes: 0, ..space(900, 0) };
    assert_eq!(level(&without, &settings), Level::Enough);
    let none = DiskSettings { task_reserve_bytes: 0, task_reserve_inodes: 0, ..settings };
    assert_eq!(level(&space(0, 0), &none), Level::Enough);
}
