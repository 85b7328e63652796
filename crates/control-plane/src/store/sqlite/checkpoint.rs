//! Checkpoints the write-ahead log on its own thread while commits continue.
//!
//! If the writer did it, as SQLite does by default, a checkpoint of 32 MB would delay all commits
//! by tens of milliseconds. Here the writer checkpoints only when the log reaches [`LOG_PAGES`],
//! which the thread prevents unless commits never pause; then little is left to do.
//!
//! SQLite reuses the log from its start once all of it is in the database and no read uses it.
//! While reads overlap, one always does, and the log grows. So at [`RESTART_PAGES`] the writer
//! waits for the reads of the moment; later ones do not need the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::hooks::Wal;
use rusqlite::wal::CheckpointMode;
use rusqlite::{Connection, ErrorCode, OpenFlags, ffi};

/// Pages of 4 KiB in the log before a checkpoint: fewer means more writes of the same page, more
/// means a longer recovery after a crash.
const CHECKPOINT_PAGES: i32 = 8192;

/// Pages in the log before the writer itself checkpoints the rest.
const LOG_PAGES: i32 = 4 * CHECKPOINT_PAGES;

/// Pages in the log before the writer waits for those who read it.
pub(super) const RESTART_PAGES: i32 = 2 * LOG_PAGES;

/// How long it waits for them, and then for those that came later: longer than any search of a
/// user may take. A backup may take longer; then the log doubles before the next attempt.
const RESTART_TIMEOUT: Duration = Duration::from_secs(4);

/// The size to which the log's file is truncated after it has been larger.
pub(super) const LOG_BYTES: i64 = (LOG_PAGES as i64) * 4096;

/// Passes in a row while commits continue: each handles what arrived during the previous one, so a
/// few reach the end of the log, after which it is reused from its start.
const PASSES: u32 = 4;

/// How long a commit waits for the thread: a log of this size takes tens of milliseconds, and a far
/// slower disk should not delay what is already stored.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1);
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The checkpoint thread. Dropping this ends it, before the writer's connection closes: the last
/// connection to close checkpoints the whole log, and this thread's connection may not know all of
/// it.
pub(super) struct Checkpointer {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

// === impl Checkpointer ===

impl Checkpointer {
    /// Starts the thread, and installs the hook by which the writer wakes it when the log has
    /// grown.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // One pending wake-up is enough: every commit sends another.
        let (grown, signals) = sync_channel(1);
        let (wake, stopping) = (grown.clone(), Arc::<AtomicBool>::default());
        writer.busy_timeout(RESTART_TIMEOUT)?;
        let mut restart_at = RESTART_PAGES;
        writer.wal_hook(Some(move |log: &mut Wal, pages: i32| {
            if pages < RESTART_PAGES {
                restart_at = RESTART_PAGES;
            }
            if pages >= restart_at {
                if let Err(error) = restart(log) {
                    tracing::warn!(
                        %error,
                        "the log of the state database grows while a long read uses it, such as a backup"
                    );
                    restart_at = pages.saturating_mul(2);
                }
            } else if pages >= LOG_PAGES {
                // The next commit retries a failure, which is harmless until then.
                let _ = retry(CATCH_UP_TIMEOUT, || log.checkpoint());
            } else if pages >= CHECKPOINT_PAGES {
                let _ = grown.try_send(());
            }
            Ok(())
        }))?;
        let stop = Arc::clone(&stopping);
        let file = path.to_owned();
        let run = move || run(&file, &connection, &signals, &stop);
        let thread = match thread::Builder::new().name("checkpoint".to_owned()).spawn(run) {
            Ok(thread) => Some(thread),
            Err(error) => {
                // The writer checkpoints on its own.
                tracing::warn!(%error, "cannot start the checkpoint thread; commits will wait for checkpoints");
                None
            }
        };
        Ok(Self { thread, stopping, wake })
    }

    /// Checkpoints the log, however small it is.
    pub(super) fn wake(&self) {
        // A pending wake-up serves as well.
        let _ = self.wake.try_send(());
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpoint thread panicked");
        }
    }
}

/// Lets the next commit reuse the log from its start, once no read uses it.
///
/// First all of it has to be in the database, because only then do new reads need no log. SQLite
/// would wait for the locks of earlier reads one by one, and later ones may share the lock that it
/// waits for, so that it never comes free; instead, each attempt here goes as far as it can.
fn restart(log: &mut Wal) -> rusqlite::Result<()> {
    retry(RESTART_TIMEOUT, || match log.checkpoint_v2(CheckpointMode::PASSIVE)? {
        (pages, carried_over) if carried_over < pages => Err(busy()),
        _ => Ok(()),
    })?;
    retry(RESTART_TIMEOUT, || log.checkpoint_v2(CheckpointMode::RESTART).map(drop))
}

/// Checkpoints on the writer's thread, after a commit, and waits while the other thread does, which
/// SQLite does not: commits that continued at the same time would let the log grow while they are
/// faster.
fn retry(
    timeout: Duration,
    mut checkpoint: impl FnMut() -> rusqlite::Result<()>,
) -> rusqlite::Result<()> {
    let begin = Instant::now();
    loop {
        match checkpoint() {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && begin.elapsed() < timeout =>
            {
                thread::sleep(RETRY_PAUSE);
            }
            done => return done,
        }
    }
}

fn busy() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)
}

fn run(path: &Path, connection: &Connection, signals: &Receiver<()>, stopping: &AtomicBool) {
    while signals.recv().is_ok() && !stopping.load(Ordering::Acquire) {
        for _ in 0..PASSES {
            match pass(path, connection) {
                Ok(Some((pages, carried_over))) if carried_over < pages => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "cannot checkpoint the state database");
                    break;
                }
            }
        }
    }
}

/// Whether the disk has room for what the log adds to the database. Where it has not, a checkpoint
/// would only take what is left from the commits.
fn has_room(path: &Path, connection: &Connection) -> rusqlite::Result<bool> {
    let number = |pragma: &str| connection.query_row(pragma, [], |row| row.get::<_, i64>(0));
    let needed = number("PRAGMA page_count")? * number("PRAGMA page_size")?;
    let has = std::fs::metadata(path).map_or(needed, |file| file.len().cast_signed());
    let grows = u64::try_from(needed - has).unwrap_or(0);
    Ok(rustix::fs::statvfs(path).map_or(true, |disk| grows <= disk.f_bavail * disk.f_frsize))
}

/// Never blocks; returns how many pages the log has, and how many of them are in the database.
/// Does nothing where the disk has no room for it.
fn pass(path: &Path, connection: &Connection) -> rusqlite::Result<Option<(i64, i64)>> {
    if !has_room(path, connection)? {
        return Ok(None);
    }
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |row| Ok(Some((row.get(1)?, row.get(2)?))))
}
