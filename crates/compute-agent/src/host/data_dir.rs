//! The agent's directory on disk: its lock and its layout.
//!
//! ```text
//! lock                         held by the one agent that uses the directory
//! ledger.sqlite                see `ledger`
//! identity.json                the node's key and certificate, see `host::identity`
//! agent.token                  opens this agent's own API, see `http::local_token`
//! secrets-dir                  where secrets of tasks are in memory, see `host::secrets_dir`
//! clock                        see `host::clock`
//! draining                     see `drain`
//! node-usage.json              what its executions used together, see `node::usage`
//! images.json                  images that the agent pulled, see `runtime::docker`
//! images.private.json          images that are being pulled with credentials of a namespace
//! published/<execution id>.tar.gz   archives that the agent serves, see `data::results::publisher::local`
//! cache/<key>/                 inputs that were fetched before, see `data::inputs::cache`
//! wasm-cache/                  compiled modules by their digest, see `runtime::wasm::store`
//! probe/                       what probes of this node write and mount, see `node::probe`
//! probe-wasm/                  the run of a twin, see `runtime::wasm::twin`
//! executions/<execution id>/   inputs/<n>, stdout, stderr, output.index, results/<name>, usage.json,
//!                              wasm/ while its engine holds it (see `runtime::wasm`)
//! ```

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use api_types::ExecutionId;

use super::tree::{remove_all, size_of};

/// For the agent's user alone.
const MODE: u32 = 0o700;

#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    #[error("cannot use the data directory {}: {source}; make it writable or set another with data_dir", path.display())]
    Unusable { path: PathBuf, source: io::Error },
    #[error("the data directory {} is in use by another agent; give each agent its own", path.display())]
    InUse { path: PathBuf },
}

/// The data directory, locked for as long as this lives.
#[derive(Debug)]
pub(crate) struct DataDir {
    root: PathBuf,
    _lock: File,
}

/// The directory of one execution; it may not exist (yet, or any more).
#[derive(Debug, Clone)]
pub(crate) struct ExecutionDir {
    id: ExecutionId,
    root: PathBuf,
}

// === impl DataDir ===

impl DataDir {
    /// Creates the directory if it does not exist, and locks it.
    pub(crate) fn open(root: &Path) -> Result<Self, DataDirError> {
        let unusable = |source| DataDirError::Unusable { path: root.to_owned(), source };
        fs::create_dir_all(root.join("executions")).map_err(unusable)?;
        // The Engine requires absolute paths for mounts.
        let root = fs::canonicalize(root).map_err(unusable)?;
        // Specifications and results are in here, and earlier releases let everybody read them.
        fs::set_permissions(&root, Permissions::from_mode(MODE)).map_err(unusable)?;
        match daemon::lock(&root.join("lock")).map_err(unusable)? {
            Some(lock) => Ok(Self { root, _lock: lock }),
            None => Err(DataDirError::InUse { path: root }),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The record of pulled images.
    pub(crate) fn images(&self) -> PathBuf {
        self.root.join("images.json")
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.root.join("ledger.sqlite")
    }

    /// Compiled modules; losing them only costs recompilation.
    pub(crate) fn wasm_cache(&self) -> PathBuf {
        self.root.join("wasm-cache")
    }

    pub(crate) fn identity(&self) -> PathBuf {
        self.root.join("identity.json")
    }

    pub(crate) fn local_token(&self) -> PathBuf {
        self.root.join("agent.token")
    }

    /// The anchor of the steady clock.
    pub(crate) fn clock_note(&self) -> PathBuf {
        self.root.join("clock")
    }

    pub(crate) fn drain_note(&self) -> PathBuf {
        self.root.join("draining")
    }

    /// What the executions of the node used; see [`crate::node::usage`].
    pub(crate) fn node_usage(&self) -> PathBuf {
        self.root.join("node-usage.json")
    }

    pub(crate) fn published(&self) -> PathBuf {
        self.root.join("published")
    }

    pub(crate) fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// What probes of this node write, and mount into twins.
    pub(crate) fn probe(&self) -> PathBuf {
        self.root.join("probe")
    }

    pub(crate) fn wasm_twin(&self) -> PathBuf {
        self.root.join("probe-wasm")
    }

    pub(crate) fn executions(&self) -> ExecutionDirs {
        ExecutionDirs { root: self.root.join("executions") }
    }
}

/// The parent of the executions' directories.
#[derive(Debug, Clone)]
pub(crate) struct ExecutionDirs {
    root: PathBuf,
}

// === impl ExecutionDirs ===

impl ExecutionDirs {
    pub(crate) fn for_execution(&self, id: ExecutionId) -> ExecutionDir {
        ExecutionDir { id, root: self.root.join(id.to_string()) }
    }

    /// Every execution that has a directory.
    pub(crate) fn list(&self) -> io::Result<Vec<ExecutionId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            if let Some(id) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) {
                ids.push(id);
            }
        }
        Ok(ids)
    }
}

// === impl ExecutionDir ===

impl ExecutionDir {
    pub(crate) fn id(&self) -> ExecutionId {
        self.id
    }

    pub(crate) fn input(&self, index: usize) -> PathBuf {
        self.root.join("inputs").join(index.to_string())
    }

    /// The directory of an input that is one.
    pub(crate) fn input_directory(&self, index: usize) -> PathBuf {
        self.input(index).join("directory")
    }

    pub(crate) fn stdout(&self) -> PathBuf {
        self.root.join("stdout")
    }

    pub(crate) fn stderr(&self) -> PathBuf {
        self.root.join("stderr")
    }

    /// The order and the times of the output in `stdout` and `stderr`.
    pub(crate) fn output_index(&self) -> PathBuf {
        self.root.join("output.index")
    }

    pub(crate) fn results(&self) -> PathBuf {
        self.root.join("results")
    }

    /// The last sample of what the task uses.
    pub(crate) fn usage(&self) -> PathBuf {
        self.root.join("usage.json")
    }

    /// The wasm engine's files of a run.
    pub(crate) fn wasm(&self) -> PathBuf {
        self.root.join("wasm")
    }

    /// The archive before it is published.
    pub(crate) fn archive(&self) -> PathBuf {
        self.root.join("archive.tar.gz")
    }

    /// The size of the inputs in this directory.
    pub(crate) fn inputs_bytes(&self) -> io::Result<u64> {
        size_of(&self.root.join("inputs"))
    }

    /// The size of everything in this directory.
    pub(crate) fn kept_bytes(&self) -> io::Result<u64> {
        size_of(&self.root)
    }

    pub(crate) fn remove_output(&self) -> io::Result<()> {
        for file in [self.stdout(), self.stderr(), self.output_index()] {
            match fs::remove_file(file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn create(&self) -> io::Result<()> {
        fs::create_dir_all(&self.root)
    }

    pub(crate) fn remove_inputs(&self) -> io::Result<()> {
        remove_all(&self.root.join("inputs"))
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_all(&self.root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_agents_cannot_share_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let refused = DataDir::open(dir.path());
        assert!(matches!(refused, Err(DataDirError::InUse { .. })), "{refused:?}");
        drop(first);
        DataDir::open(dir.path()).unwrap();
    }

    #[test]
    fn nobody_else_reads_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        DataDir::open(dir.path()).unwrap();
        assert_eq!(fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_path_that_is_not_a_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = DataDir::open(file.path());
        assert!(matches!(refused, Err(DataDirError::Unusable { .. })), "{refused:?}");
    }
}
