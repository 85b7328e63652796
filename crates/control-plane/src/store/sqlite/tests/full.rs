//! A full disk refuses whole commits, and accepts them again once it has space.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use scheduler::change::Changes;
use scheduler::time::Moment;

use super::directory;
use crate::store::contract::{Put, Random, Sample, key, key_row, load};
use crate::store::sqlite::{SqliteStore, open};
use crate::store::{Reads, Store, StoreError};

/// A commit of some hundred kilobytes.
fn large(random: &mut Random) -> (Vec<Sample>, Changes) {
    let samples: Vec<_> = (0..100)
        .map(|_| {
            let mut sample = Sample::job(random);
            sample.new.spec_json = "x".repeat(4000).into();
            sample
        })
        .collect();
    let mut changes = Changes::default();
    samples.iter().for_each(|sample| sample.add_to(&mut changes));
    (samples, changes)
}

/// Commits until the store refuses; returns the number of the refused commit.
fn fill(store: &mut dyn Store, random: &mut Random) -> (u64, Vec<Sample>, Changes) {
    for number in store.last_commit().unwrap() + 1..1000 {
        let (samples, changes) = large(random);
        match store.put(number, &changes, &[key_row(&number.to_string(), 1)]) {
            Ok(()) => {}
            Err(StoreError::Full { path }) => {
                assert!(path.ends_with("orchestrator.db"), "{}", path.display());
                return (number, samples, changes);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    panic!("the disk is never full");
}

/// Nothing of the refused commit is stored, and everything before it still is; some of that were
/// probes.
fn assert_refused(
    store: &mut dyn Store,
    reads: &dyn Reads,
    (number, probes): (u64, u64),
    samples: &[Sample],
) {
    assert_eq!(store.last_commit().unwrap(), number - 1);
    assert!(store.idempotency(&key(&number.to_string()), Moment(0)).unwrap().is_none());
    for sample in samples {
        assert!(!store.has_job(sample.id()).unwrap());
        assert_eq!(reads.job(sample.id()).unwrap(), None);
    }
    assert_eq!(load(store).0.len() as u64, (number - 1 - probes) * 100);
}

#[test]
fn a_file_that_may_not_grow_is_a_full_disk_until_it_may() {
    let directory = directory();
    let mut random = Random(60);
    let (mut store, reads) = open(directory.path()).unwrap();
    store.connection.pragma_update(None, "max_page_count", 1000).unwrap();
    let (number, samples, changes) = fill(&mut store, &mut random);
    assert_refused(&mut store, reads.as_ref(), (number, 0), &samples);
    assert!(matches!(store.probe(), Err(StoreError::Full { .. })));
    assert_refused(&mut store, reads.as_ref(), (number, 0), &samples);

    store.connection.pragma_update(None, "max_page_count", 1_000_000).unwrap();
    store.probe().unwrap();
    store.put(number + 1, &changes, &[]).unwrap();
    assert!(reads.job(samples[0].id()).unwrap().is_some());
}

/// A small file system, unmounted on drop.
struct Mounted<'a>(&'a Path);

impl<'a> Mounted<'a> {
    fn new(at: &'a Path) -> Option<Self> {
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=12m", "tmpfs"])
            .arg(at)
            .output()
            .is_ok_and(|output| output.status.success());
        made.then_some(Self(at))
    }
}

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "unmount {}", self.0.display());
    }
}

/// What the log holds is in the database already, or replaces what is.
#[test]
fn a_disk_that_the_log_fills_has_room_again_by_itself() {
    let directory = directory();
    let Some(mounted) = Mounted::new(directory.path()) else {
        println!("skipped: a file system cannot be mounted here");
        return;
    };
    let (mut store, reads) = open(directory.path()).unwrap();
    let ballast = "CREATE TABLE ballast (x BLOB); INSERT INTO ballast VALUES (randomblob(1000000));
        PRAGMA wal_checkpoint(TRUNCATE);";
    store.connection.execute_batch(ballast).unwrap();
    let replace = |store: &mut SqliteStore| {
        store.run(|connection| {
            connection.execute("UPDATE ballast SET x = randomblob(1000000)", [])?;
            Ok(())
        })
    };
    let filled = (0..100).find_map(|_| replace(&mut store).err());
    assert!(matches!(filled, Some(StoreError::Full { .. })), "{filled:?}");
    let patience = Instant::now() + Duration::from_secs(30);
    while let Err(error) = replace(&mut store) {
        assert!(matches!(error, StoreError::Full { .. }), "{error:?}");
        assert!(Instant::now() < patience, "the log still fills the disk");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop((store, reads));
    drop(mounted);
}

#[test]
fn a_full_file_system_refuses_commits_and_recovers() {
    let directory = directory();
    let Some(mounted) = Mounted::new(directory.path()) else {
        println!("skipped: a file system cannot be mounted here");
        return;
    };
    let mut random = Random(61);
    let ballast = directory.path().join("ballast");
    std::fs::write(&ballast, vec![1; 4 << 20]).unwrap();
    let (mut store, reads) = open(directory.path()).unwrap();
    let (number, samples, changes) = fill(&mut store, &mut random);
    assert_refused(&mut store, reads.as_ref(), (number, 0), &samples);
    assert!(matches!(store.probe(), Err(StoreError::Full { .. })));

    std::fs::remove_file(&ballast).unwrap();
    store.probe().unwrap();
    store.put(number + 1, &changes, &[]).unwrap();
    assert!(reads.job(samples[0].id()).unwrap().is_some());

    // A start finds everything too; a start on a full disk reports it or continues.
    let (number, samples, _) = fill(&mut store, &mut random);
    drop((store, reads));
    let (mut store, reads) = match open(directory.path()) {
        Ok(opened) => opened,
        Err(StoreError::Full { .. }) => {
            drop(mounted);
            return;
        }
        Err(error) => panic!("{error:?}"),
    };
    assert_refused(&mut store, reads.as_ref(), (number, 1), &samples);
    drop((store, reads));
    drop(mounted);
}
