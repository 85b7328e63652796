//! Carries the write-ahead log over to the file, on a thread of its own while commits go on.
//!
//! Done by the writer, as SQLite does it by itself, a checkpoint of 32 MB holds all commits up for
//! tens of milliseconds. Here the writer only does so when the log has grown to [`LOG_PAGES`],
//! which the thread has kept from happening unless commits never pause; and little is left to be
//! carried over then.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, ErrorCode, OpenFlags};

/// Pages of 4 KiB in the log before they are carried over: fewer means more writes of the same
/// page, more means a longer look at the log after a crash.
const CHECKPOINT_PAGES: i32 = 8192;

/// Pages in the log before the writer itself carries over what is left.
const LOG_PAGES: i32 = 4 * CHECKPOINT_PAGES;

/// What is left of the log's file when it was emptied after having been larger.
pub(super) const LOG_BYTES: i64 = (LOG_PAGES as i64) * 4096;

/// Passes in a row while commits go on: each has what came during the one before, so that a few
/// reach the end of the log, from where it is written anew.
const PASSES: u32 = 4;

/// How long a commit waits for the thread: a log of this size takes tens of milliseconds, and a
/// disk that is slower by far should not hold up what is stored already.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(1);
const CATCH_UP_PAUSE: Duration = Duration::from_millis(1);

/// The thread. It ends with this, which is dropped before the writer's connection: the last
/// connection that is closed carries the whole log over, and this thread's might not know of it.
pub(super) struct Checkpointer {
    thread: Option<JoinHandle<()>>,
    stopping: Arc<AtomicBool>,
    wake: SyncSender<()>,
}

// === impl Checkpointer ===

impl Checkpointer {
    /// Starts the thread, and has the writer tell it when the log has grown.
    pub(super) fn start(path: &Path, writer: &mut Connection) -> rusqlite::Result<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        // One word that waits is enough: it is said anew with every commit.
        let (grown, signals) = sync_channel(1);
        let (wake, stopping) = (grown.clone(), Arc::<AtomicBool>::default());
        writer.wal_hook(Some(move |log: &mut Wal, pages| {
            if pages >= LOG_PAGES {
                catch_up(log);
            } else if pages >= CHECKPOINT_PAGES {
                let _ = grown.try_send(());
            }
            Ok(())
        }))?;
        let told = Arc::clone(&stopping);
        let run = move || run(&connection, &signals, &told);
        let thread = match thread::Builder::new().name("checkpoint".to_owned()).spawn(run) {
            Ok(thread) => Some(thread),
            Err(error) => {
                // The writer does without.
                tracing::warn!(%error, "no thread for checkpoints: commits will wait for them");
                None
            }
        };
        Ok(Self { thread, stopping, wake })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // A word that waits already wakes it as well.
        let _ = self.wake.try_send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread of checkpoints panicked");
        }
    }
}

/// Carries over what is left, on the writer's thread, after a commit. The other thread may be at
/// it, and is waited for: commits that went on meanwhile would have the log grow for as long as
/// they are the faster ones.
fn catch_up(log: &mut Wal) {
    let begin = Instant::now();
    // What fails here is tried again with the next commit, and harms nothing before.
    while let Err(error) = log.checkpoint()
        && error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
        && begin.elapsed() < CATCH_UP_TIMEOUT
    {
        thread::sleep(CATCH_UP_PAUSE);
    }
}

fn run(connection: &Connection, signals: &Receiver<()>, stopping: &AtomicBool) {
    while signals.recv().is_ok() && !stopping.load(Ordering::Acquire) {
        for _ in 0..PASSES {
            match pass(connection) {
                Ok((pages, carried_over)) if carried_over < pages => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::warn!(%error, "a checkpoint of the state database failed");
                    break;
                }
            }
        }
    }
}

/// Waits for nobody; tells how many pages the log has, and how many of them the file has too.
fn pass(connection: &Connection) -> rusqlite::Result<(i64, i64)> {
    connection
        .prepare_cached("PRAGMA wal_checkpoint(PASSIVE)")?
        .query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
}
