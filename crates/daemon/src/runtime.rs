//! The threads of a daemon.

use std::io;
use std::num::NonZero;
use std::thread;

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
