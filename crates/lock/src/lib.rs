//! A lock file that gives one process exclusive use of a data directory.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How long to wait for a lock. A program that the previous owner was just starting when it ended
/// holds copies of all open files, including the locked one, until it runs: some milliseconds.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interval between two attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Only the owner needs access.
const FILE_MODE: u32 = 0o600;

/// Locks this file, creating it if needed; `None` when another process holds it.
///
/// The kernel releases the lock with the file, however the process ends.
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
mod tests;
