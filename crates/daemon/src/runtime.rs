//! The threads of a daemon.

use std::io;
use std::num::NonZero;
use std::thread;

use tokio::runtime::{Builder, Runtime};

/// More have nothing to do: all they serve goes through the one thread that owns the state.
const MOST_WORKERS: usize = 4;

/// Runs what waits for the network. One core is left to the thread that owns the state: a worker
/// that has nothing to do is woken for nothing whenever another gets something, which on two cores
/// costs more than it brings.
pub fn runtime() -> io::Result<Runtime> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = cores.saturating_sub(1).clamp(1, MOST_WORKERS);
    Builder::new_multi_thread().worker_threads(workers).enable_all().build()
}
