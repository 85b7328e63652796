//! Modules: found among what was fetched, compiled, and looked at before anything runs.

use std::fs;
use std::path::{Path, PathBuf};

use wasmtime::{Engine, ExternType, FuncType, Module};

use crate::execution::Failure;

/// A module may be so large. Compiling takes some twenty times of it in memory, and seconds.
const MAX_MODULE_BYTES: u64 = 128 << 20;

/// What every binary of WebAssembly begins with, and the version of a module; a component has
/// another version in its place.
const MAGIC: &[u8] = b"\0asm";
const MODULE_VERSION: &[u8] = &[1, 0, 0, 0];

/// Names in a message about a function that is not there.
const MAX_NAMES_TOLD: usize = 20;

/// Reads and compiles what was fetched as `what`, or takes it compiled from the cache.
pub(super) fn load(engine: &Engine, what: &str, fetched: &Path) -> Result<Module, Failure> {
    let named = |reason: String| Failure::task(format!("{what} {reason}"));
    let unread = |error| Failure::node(format!("{what} cannot be read on the node: {error}"));
    let path = file(fetched).map_err(unread)?.ok_or_else(|| {
        named("is a directory that holds more or less than one module".to_owned())
    })?;
    let size_bytes = fs::metadata(&path).map_err(unread)?.len();
    if size_bytes > MAX_MODULE_BYTES {
        return Err(named(format!("has {size_bytes} bytes; a module may have {MAX_MODULE_BYTES}")));
    }
    let bytes = fs::read(&path).map_err(unread)?;
    let version = bytes.strip_prefix(MAGIC).ok_or_else(|| {
        named("is not a WebAssembly module: it does not begin with '\\0asm'".to_owned())
    })?;
    if !version.starts_with(MODULE_VERSION) {
        return Err(named(
            "is a WebAssembly component or of another version; this engine runs modules of \
             version 1 with WASI preview 1"
                .to_owned(),
        ));
    }
    Module::from_binary(engine, &bytes)
        .map_err(|error| named(format!("is not a valid WebAssembly module: {error:#}")))
}

/// The one file that was fetched; in a directory the only `.wasm`, or the only file there is.
fn file(fetched: &Path) -> std::io::Result<Option<PathBuf>> {
    if fs::metadata(fetched)?.is_file() {
        return Ok(Some(fetched.to_owned()));
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(fetched)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    if files.len() > 1 {
        files.retain(|path| path.extension().is_some_and(|extension| extension == "wasm"));
    }
    Ok(if files.len() == 1 { files.pop() } else { None })
}

/// Whether the entry point is a function that can be called as one.
pub(super) fn check_entry_point(module: &Module, name: &str) -> Result<(), Failure> {
    let refused = |reason: String| Failure::task(format!("the EntryModule {reason}"));
    match module.get_export(name) {
        Some(ExternType::Func(function)) if is_entry(&function) => Ok(()),
        Some(ExternType::Func(function)) => Err(refused(format!(
            "has a function '{name}' of the type {function}; an EntryPoint takes no parameters \
             and returns nothing, or an exit code as i32"
        ))),
        _ => {
            let functions: Vec<_> = module
                .exports()
                .filter(|export| matches!(export.ty(), ExternType::Func(_)))
                .take(MAX_NAMES_TOLD)
                .map(|export| format!("'{}'", export.name()))
                .collect();
            Err(refused(match functions.as_slice() {
                [] => format!("has no function '{name}'; it exports no function at all"),
                some => format!("has no function '{name}'; it exports {}", some.join(", ")),
            }))
        }
    }
}

fn is_entry(function: &FuncType) -> bool {
    let mut results = function.results();
    function.params().len() == 0
        && results.next().is_none_or(|result| result.is_i32())
        && results.next().is_none()
}

#[cfg(test)]
mod tests;
