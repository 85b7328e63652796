//! The threads and the process attributes of a daemon.

use std::io;
use std::num::NonZero;
use std::thread;

use rustix::fs::Mode;
use tokio::runtime::{Builder, Runtime};

/// More workers would idle: all requests go through the one thread that owns the state.
const MOST_WORKERS: usize = 4;

/// The runtime for network I/O. One core is left to the thread that owns the state: an idle worker
/// is woken needlessly whenever another gets work, which on two cores costs more than it gains.
pub fn runtime() -> io::Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = cores.saturating_sub(1).clamp(1, MOST_WORKERS);
    Builder::new_multi_thread().worker_threads(workers).enable_all().build()
}

/// Makes every file that the process creates private to its user, whatever umask it inherited. A
/// file that is for others gets its mode explicitly.
pub fn keep_files_private() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
