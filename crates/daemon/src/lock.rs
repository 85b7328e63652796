//! A data directory belongs to one process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long a lock is waited for. A program that the former owner was just starting when it ended
/// has a copy of every open file, the locked one too, until it runs: some milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// Nobody else on the machine has to do with it.
const FILE_MODE: u32 = 0o600;

/// Locks this file, which is made where there is none; `None` when another process holds it.
///
/// The kernel lets go of the lock with the file, however the process ends.
pub fn lock(path: &Path) -> io::Result<Option<File>> {
    let file =
        OpenOptions::new().create(true).truncate(false).write(true).mode(FILE_MODE).open(path)?;
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_for_a_moment_is_waited_for() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path).unwrap().expect("it is free");
        // As a program that is being started has it.
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
    fn what_stays_held_is_not_had() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let first = lock(&path).unwrap().expect("it is free");
        assert!(lock(&path).unwrap().is_none());
        drop(first);
        assert!(lock(&path).unwrap().is_some());
    }
}
