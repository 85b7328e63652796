//! Compiled code, mapped from its file.

use std::path::Path;

use wasmtime::{Engine, Module};

/// Loads the output of [`compile`](crate::compile).
#[expect(unsafe_code, reason = "wasmtime cannot check that code is what its compiler made")]
pub(crate) fn load(engine: &Engine, path: &Path) -> wasmtime::Result<Module> {
    // SAFETY: The file is the output of this program's own compiler: the agent stores it under
    // the digest of its module in a directory that only the agent writes to, has checked its
    // digest, never changes a file there, and names no other file in a plan. Programs are shown
    // neither the store nor the links in the run directory. That it was made by a compatible
    // wasmtime with the same configuration is checked by wasmtime itself.
    unsafe { Module::deserialize_file(engine, path) }
}
