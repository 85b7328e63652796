//! Locking waits a moment, and the lock ends with its process.

use super::*;

#[test]
fn locking_waits_for_a_lock_that_is_held_briefly() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let first = lock(&path).unwrap().expect("it is free");
    // A program that is being started holds such a copy.
    let copy = first.try_clone().unwrap();
    drop(first);
    let release = thread::spawn(move || {
        thread::sleep(PAUSE * 5);
        drop(copy);
    });
    assert!(lock(&path).unwrap().is_some());
    release.join().unwrap();
}

#[test]
fn a_lock_that_stays_held_is_not_granted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("lock");
    let first = lock(&path).unwrap().expect("it is free");
    assert!(lock(&path).unwrap().is_none());
    drop(first);
    assert!(lock(&path).unwrap().is_some());
}
