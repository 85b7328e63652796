//! Modules: located among the fetched files, identified by their digest, and checked.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ring::digest::{Context, SHA256};
use wasm_run::Compiled;

use agent_core::execution::Failure;

/// The size limit of a module. Compilation has separate limits.
const MAX_MODULE_BYTES: u64 = 128 << 20;

/// The magic number of WebAssembly and the version of a module; a component has another version.
const MAGIC: &[u8] = b"\0asm";
const MODULE_VERSION: &[u8] = &[1, 0, 0, 0];

/// Names listed in a message about a missing function.
const MAX_NAMES_TOLD: usize = 20;

/// Bytes per read of a module.
const CHUNK_BYTES: usize = 64 << 10;

/// The SHA-256 of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Digest([u8; 32]);

/// A module on the node's disk.
#[derive(Debug, Clone)]
pub(super) struct Module {
    /// Its name in messages to the user.
    pub(super) what: String,
    pub(super) path: PathBuf,
    pub(super) digest: Digest,
}

// === impl Module ===

impl Module {
    /// Finds and opens the module that was fetched as `what`.
    pub(super) fn open(what: String, fetched: &Path) -> Result<Self, Failure> {
        let named = |reason: &str| Failure::task(format!("{what} {reason}"));
        let unread = |error| Failure::node(format!("cannot read {what} on the node: {error}"));
        let path = file(fetched)
            .map_err(unread)?
            .ok_or_else(|| named("is a directory that holds more or less than one module"))?;
        let mut file = File::open(&path).map_err(unread)?;
        let size_bytes = file.metadata().map_err(unread)?.len();
        if size_bytes > MAX_MODULE_BYTES {
            return Err(named(&format!(
                "has {size_bytes} bytes; a module may have {MAX_MODULE_BYTES}"
            )));
        }
        let mut head = Vec::new();
        let head_bytes = (MAGIC.len() + MODULE_VERSION.len()) as u64;
        (&mut file).take(head_bytes).read_to_end(&mut head).map_err(unread)?;
        let version = head
            .strip_prefix(MAGIC)
            .ok_or_else(|| named("is not a WebAssembly module: it does not begin with '\\0asm'"))?;
        if version != MODULE_VERSION {
            return Err(named(
                "is a WebAssembly component or of another version; this engine runs modules of \
                 version 1 with WASI preview 1",
            ));
        }
        let mut context = Context::new(&SHA256);
        context.update(&head);
        digest_into(&mut file, context, &mut io::sink())
            .map(|digest| Self { what, path, digest })
            .map_err(|error| Failure::node(format!("cannot read a module: {error}")))
    }
}

// === impl Digest ===

impl Digest {
    pub(super) fn of_file(path: &Path) -> io::Result<Self> {
        digest_into(&mut File::open(path)?, Context::new(&SHA256), &mut io::sink())
    }

    /// The digest of the copied bytes: the file itself may change at any time.
    pub(super) fn of_copy(from: &Path, to: &mut File) -> io::Result<Self> {
        digest_into(&mut File::open(from)?, Context::new(&SHA256), to)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn digest_into(file: &mut File, mut context: Context, copy: &mut impl Write) -> io::Result<Digest> {
    let mut chunk = Vec::with_capacity(CHUNK_BYTES);
    loop {
        chunk.clear();
        if file.take(CHUNK_BYTES as u64).read_to_end(&mut chunk)? == 0 {
            break;
        }
        context.update(&chunk);
        copy.write_all(&chunk)?;
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    Ok(Digest(digest))
}

/// The one fetched file; in a directory the only `.wasm`, or the only file.
fn file(fetched: &Path) -> io::Result<Option<PathBuf>> {
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

/// Checks that the entry point is a function that can be called as one.
pub(super) fn check_entry_point(module: &Compiled, name: &str) -> Result<(), Failure> {
    let refused = |reason: String| Failure::task(format!("the EntryModule {reason}"));
    match module.functions.iter().find(|function| function.name == name) {
        Some(function) if function.is_entry => Ok(()),
        Some(function) => Err(refused(format!(
            "has a function '{name}' of the type {}; an EntryPoint takes no parameters and returns \
             nothing, or an exit code as i32",
            function.signature
        ))),
        None => {
            let names = module.functions.iter().take(MAX_NAMES_TOLD);
            let names: Vec<_> = names.map(|function| format!("'{}'", function.name)).collect();
            Err(refused(match names.as_slice() {
                [] => format!("has no function '{name}'; it exports no function at all"),
                some => format!("has no function '{name}'; it exports {}", some.join(", ")),
            }))
        }
    }
}

#[cfg(test)]
mod tests;
