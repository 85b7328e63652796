//! The store of compiled code on this node's disk, keyed by the digest of the module and bounded.
//!
//! ```text
//! wasm-cache/<runner's compatibility>/<digest>.code   what runners map
//! wasm-cache/<runner's compatibility>/<digest>.json   the compiler's report, and the code's digest
//! wasm-cache/new/                                     compilations in progress
//! ```
//!
//! Only the agent writes here. Code that an earlier agent stored is verified by its digest before
//! its first use: wasmtime cannot tell damaged code from good. A plan never names a file here but
//! a hard link to it, so that the code of a run stays when it is removed here.
//!
//! Executions that need the same module share one compilation, which ends when none of them waits
//! for it any more. The same agent does not retry a module that was refused, or exceeded the
//! compiler's limits.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use futures_util::future::{BoxFuture, FutureExt, Shared, WeakShared};
use serde::{Deserialize, Serialize};
use tracing::{info, warn};
use wasm_run::Compiled;

use super::compiler::{self, CompileError};
use super::module::{Digest, Module};
use super::runner::Runner;
use crate::host::tree::remove_all;
use crate::runtime::turns::Turns;

/// Beyond either limit, the least recently used code is removed.
const MAX_STORED_BYTES: u64 = 1 << 30;
const MAX_STORED_MODULES: usize = 4096;

/// Concurrent compilations, half of them for one namespace: each uses all the CPU time it gets, and
/// memory up to the compiler's limit. A second one prevents a slow module from blocking all others.
const MAX_COMPILATIONS: usize = 4;

/// Modules known not to compile; beyond this number all are forgotten.
const MAX_REFUSED: usize = 1024;

type Compilation = Shared<BoxFuture<'static, Result<(), CompileError>>>;
type WeakCompilation = WeakShared<BoxFuture<'static, Result<(), CompileError>>>;

pub(super) struct Store {
    runner: Arc<Runner>,
    root: PathBuf,
    /// The compatibility key of this runner's code.
    directory: PathBuf,
    permits: Turns,
    index: Mutex<Index>,
}

#[derive(Default)]
struct Index {
    stored: HashMap<String, Entry>,
    bytes: u64,
    uses: u64,
    compiling: HashMap<Digest, WeakCompilation>,
    refused: HashMap<Digest, CompileError>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    size_bytes: u64,
    last_use: u64,
    /// Whether this agent verified its digest, or had it compiled.
    is_checked: bool,
}

/// The content of `<digest>.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    code_sha256: String,
    compiled: Compiled,
}

// === impl Store ===

impl Store {
    /// Opens the code that earlier agents stored for a compatible runner, and removes the rest.
    pub(super) fn open(root: &Path, runner: Arc<Runner>) -> io::Result<Self> {
        let directory = root.join(runner.compatibility());
        fs::create_dir_all(&directory)?;
        for entry in fs::read_dir(root)? {
            let path = entry?.path();
            if path != directory {
                remove_all(&path).or_else(|_| fs::remove_file(&path))?;
            }
        }
        fs::create_dir(root.join("new"))?;
        let index = Index::read(&directory)?;
        info!(
            modules = index.stored.len(),
            bytes = index.bytes,
            "opened the store of compiled wasm modules"
        );
        Ok(Self {
            runner,
            root: root.to_owned(),
            directory,
            permits: Turns::long(MAX_COMPILATIONS),
            index: Mutex::new(index),
        })
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The compiler's description of the module, if its code is stored and undamaged.
    pub(super) fn find(&self, digest: Digest) -> Option<Compiled> {
        let name = digest.to_string();
        let entry = self.index().use_entry(&name)?;
        match self.read(&name, entry) {
            Ok(compiled) => Some(compiled),
            Err(error) => {
                warn!(module = name, %error, "stored code is damaged; compiling it again");
                self.remove(&name);
                None
            }
        }
    }

    fn read(&self, name: &str, entry: Entry) -> io::Result<Compiled> {
        let record: Record = serde_json::from_slice(&fs::read(self.record(name))?)?;
        if !entry.is_checked {
            let digest = Digest::of_file(&self.code(name))?.to_string();
            if digest != record.code_sha256 {
                return Err(io::Error::other("its digest differs"));
            }
            if let Some(entry) = self.index().stored.get_mut(name) {
                entry.is_checked = true;
            }
        }
        Ok(record.compiled)
    }

    fn code(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.code"))
    }

    fn record(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.json"))
    }

    /// Gives the code of a module another hard link, which keeps it.
    pub(super) fn link(&self, digest: Digest, to: &Path) -> io::Result<()> {
        super::files::link(&self.code(&digest.to_string()), to)
    }

    /// Compiles the module, or waits for the compilation in progress.
    pub(super) async fn compile(
        self: &Arc<Self>,
        module: &Module,
        namespace: &str,
    ) -> Result<(), CompileError> {
        let compilation = {
            let mut index = self.index();
            if let Some(refused) = index.refused.get(&module.digest) {
                return Err(refused.clone());
            }
            match index.compiling.get(&module.digest).and_then(WeakShared::upgrade) {
                Some(compilation) => compilation,
                None => index.begin(module, Arc::clone(self), namespace.to_owned()),
            }
        };
        compilation.await
    }

    async fn compile_once(
        self: Arc<Self>,
        digest: Digest,
        path: PathBuf,
        namespace: String,
    ) -> Result<(), CompileError> {
        let _permit = self.permits.take(&namespace).await;
        let new = self.root.join("new").join(digest.to_string());
        let outcome = compiler::compile(&self.runner, digest, &path, &new).await;
        let stored = outcome.and_then(|compiled| {
            self.take_in(digest, &new, compiled)
                .map_err(|error| CompileError::Node(format!("cannot store compiled code: {error}")))
        });
        if let Err(error) = &stored {
            drop(remove_all(&new));
            self.index().refuse(digest, error);
        }
        stored
    }

    /// The record comes last, so that code without one counts as damaged.
    fn take_in(&self, digest: Digest, new: &Path, compiled: Compiled) -> io::Result<()> {
        let (name, code) = (digest.to_string(), compiler::code(new));
        let file = File::open(&code)?;
        file.sync_data()?;
        let size_bytes = file.metadata()?.len();
        let record = Record { code_sha256: Digest::of_file(&code)?.to_string(), compiled };
        let record_file = new.join("record");
        fs::write(&record_file, serde_json::to_vec(&record)?)?;
        fs::rename(&code, self.code(&name))?;
        fs::rename(record_file, self.record(&name))?;
        remove_all(new)?;
        let superfluous = self.index().insert(name, size_bytes);
        superfluous.iter().for_each(|name| self.remove(name));
        Ok(())
    }

    fn remove(&self, name: &str) {
        self.index().remove(name);
        for path in [self.record(name), self.code(name)] {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    warn!(path = %path.display(), %error, "cannot remove stored code");
                }
                _ => {}
            }
        }
    }
}

// === impl Index ===

impl Index {
    /// Reads the directory, ordered by modification time.
    fn read(directory: &Path) -> io::Result<Self> {
        let mut found: Vec<(SystemTime, String, u64)> = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(name) = name.to_str().and_then(|name| name.strip_suffix(".code")) {
                let metadata = entry.metadata()?;
                found.push((metadata.modified()?, name.to_owned(), metadata.len()));
            }
        }
        found.sort();
        let mut index = Self::default();
        for (_, name, size_bytes) in found {
            index.insert(name.clone(), size_bytes);
            if let Some(entry) = index.stored.get_mut(&name) {
                entry.is_checked = false;
            }
        }
        Ok(index)
    }

    fn use_entry(&mut self, name: &str) -> Option<Entry> {
        self.uses += 1;
        let entry = self.stored.get_mut(name)?;
        entry.last_use = self.uses;
        Some(*entry)
    }

    /// Returns the digests to evict for it.
    fn insert(&mut self, name: String, size_bytes: u64) -> Vec<String> {
        self.remove(&name);
        self.uses += 1;
        let entry = Entry { size_bytes, last_use: self.uses, is_checked: true };
        self.stored.insert(name.clone(), entry);
        self.bytes += size_bytes;
        let (mut bytes, mut count) = (self.bytes, self.stored.len());
        let mut oldest: Vec<_> = self.stored.iter().filter(|(other, _)| **other != name).collect();
        oldest.sort_unstable_by_key(|(_, entry)| entry.last_use);
        let superfluous = oldest.into_iter().take_while(|(_, entry)| {
            let is_too_much = bytes > MAX_STORED_BYTES || count > MAX_STORED_MODULES;
            bytes -= entry.size_bytes;
            count -= 1;
            is_too_much
        });
        superfluous.map(|(name, _)| name.clone()).collect()
    }

    fn remove(&mut self, name: &str) {
        if let Some(entry) = self.stored.remove(name) {
            self.bytes -= entry.size_bytes;
        }
    }

    /// In the turn of the namespace that asks first.
    fn begin(&mut self, module: &Module, store: Arc<Store>, namespace: String) -> Compilation {
        self.compiling.retain(|_, compilation| compilation.upgrade().is_some());
        let compiling = store.compile_once(module.digest, module.path.clone(), namespace);
        let compilation = compiling.boxed().shared();
        if let Some(weak) = compilation.downgrade() {
            self.compiling.insert(module.digest, weak);
        }
        compilation
    }

    fn refuse(&mut self, digest: Digest, error: &CompileError) {
        match error {
            CompileError::Module(_) => {
                if self.refused.len() >= MAX_REFUSED {
                    self.refused.clear();
                }
                self.refused.insert(digest, error.clone());
            }
            CompileError::Node(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
