//! The wasmtime configuration: the same for compiling and running, except for the compiler itself.

use wasmtime::{Config, Engine};

/// An engine that compiles, and can describe what its code is compatible with.
pub(crate) fn compiling() -> wasmtime::Result<Engine> {
    Engine::new(&config())
}

/// An engine that only runs compiled code; setting up the compiler would cost more than a short
/// run.
pub(crate) fn running() -> wasmtime::Result<Engine> {
    Engine::new(config().enable_compiler(false))
}

fn config() -> Config {
    let mut config = Config::new();
    config.epoch_interruption(true);
    config
}
