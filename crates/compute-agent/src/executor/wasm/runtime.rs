//! The WebAssembly engine of this process: how code is compiled, kept, and interrupted.
//!
//! Running code looks at the engine's epoch at every loop and call. A thread moves the epoch on
//! while anything runs, so that no program keeps its thread for longer than [`TICK`] without
//! looking whether it is to stop or has used up its share of the processor.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use wasmtime::{Cache, CacheConfig, Config, Engine};

/// How long a program runs before it looks up; each costs well under a microsecond.
const TICK: Duration = Duration::from_millis(10);

/// Compiled modules on disk; beyond either, wasmtime removes those used least recently.
const MAX_CACHED_BYTES: u64 = 1 << 30;
const MAX_CACHED_FILES: u64 = 4096;

pub(super) struct Runtime {
    pub(super) engine: Engine,
    /// Counts how often it was of use.
    pub(super) cache: Cache,
    clock: Arc<Clock>,
}

/// Moves the epoch on while there is someone to see it.
struct Clock {
    users: Mutex<Users>,
    changed: Condvar,
}

#[derive(Default)]
struct Users {
    runs: usize,
    ended: bool,
}

/// The epoch moves on for as long as this lives.
pub(super) struct Ticking {
    clock: Arc<Clock>,
}

// === impl Runtime ===

impl Runtime {
    /// With compiled modules kept below `cache`, by the hash of their content, the engine's
    /// version and its configuration.
    pub(super) fn new(cache: &Path) -> wasmtime::Result<Self> {
        let mut kept = CacheConfig::new();
        kept.with_directory(cache)
            .with_files_total_size_soft_limit(MAX_CACHED_BYTES)
            .with_file_count_soft_limit(MAX_CACHED_FILES);
        let cache = Cache::new(kept)?;
        let mut config = Config::new();
        config.epoch_interruption(true).cache(Some(cache.clone()));
        let engine = Engine::new(&config)?;
        let clock = Arc::new(Clock { users: Mutex::default(), changed: Condvar::new() });
        let (ticking, ticked) = (Arc::clone(&clock), engine.clone());
        std::thread::Builder::new()
            .name("wasm-clock".to_owned())
            .spawn(move || ticking.tick(&ticked))?;
        Ok(Self { engine, cache, clock })
    }

    pub(super) fn ticking(&self) -> Ticking {
        self.clock.users().runs += 1;
        self.clock.changed.notify_all();
        Ticking { clock: Arc::clone(&self.clock) }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.clock.users().ended = true;
        self.clock.changed.notify_all();
    }
}

// === impl Clock ===

impl Clock {
    fn users(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, engine: &Engine) {
        loop {
            let idle = |users: &mut Users| users.runs == 0 && !users.ended;
            let users =
                self.changed.wait_while(self.users(), idle).unwrap_or_else(PoisonError::into_inner);
            // What still runs then is told otherwise to end, and needs the epoch to hear of it.
            if users.ended && users.runs == 0 {
                return;
            }
            drop(users);
            std::thread::sleep(TICK);
            engine.increment_epoch();
        }
    }
}

// === impl Ticking ===

impl Drop for Ticking {
    fn drop(&mut self) {
        self.clock.users().runs -= 1;
        self.clock.changed.notify_all();
    }
}
