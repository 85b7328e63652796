//! A synced write to a directory of the agent's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

/// Limit on the time for a write. A disk that takes longer is of no use to a task.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Bytes of the file: more than fits into the metadata of a file.
const SIZE_BYTES: usize = 4096;

/// A directory that tasks depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AgentDir {
    Data,
    Secrets,
}

#[derive(Debug)]
pub(super) struct Disk {
    kind: AgentDir,
    directory: PathBuf,
    /// Held by the thread that writes, which no time limit ends.
    writing: Arc<Mutex<()>>,
}

// === impl AgentDir ===

impl AgentDir {
    fn name(self) -> &'static str {
        match self {
            Self::Data => "data directory",
            Self::Secrets => "directory of secrets",
        }
    }
}

// === impl Disk ===

impl Disk {
    pub(super) fn new(kind: AgentDir, directory: PathBuf) -> Self {
        Self { kind, directory, writing: Arc::default() }
    }

    /// Writes a file, and returns its directory; or the reason why it cannot.
    pub(super) async fn write(&self) -> Result<PathBuf, String> {
        let name = self.kind.name();
        let writing = async {
            let held = Arc::clone(&self.writing).lock_owned().await;
            let directory = self.directory.clone();
            let written = tokio::task::spawn_blocking(move || {
                let _held = held;
                write(&directory)
            });
            written.await.unwrap_or_else(|error| Err(io::Error::other(error)))
        };
        match tokio::time::timeout(TIMEOUT, writing).await {
            Ok(Ok(())) => Ok(self.directory.clone()),
            Ok(Err(error)) => Err(format!("cannot write to its {name}: {error}")),
            Err(_) => Err(format!("a write to its {name} takes more than {TIMEOUT:?}")),
        }
    }
}

/// Whole and synced, with its directory entry.
fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let (new, written) = (directory.join("new"), directory.join("written"));
    let mut file = File::create(&new)?;
    file.write_all(&[0x5A; SIZE_BYTES])?;
    file.sync_all()?;
    fs::rename(&new, &written)?;
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_is_named_and_one_that_can_is_returned() {
        let root = tempfile::tempdir().unwrap();
        let good = Disk::new(AgentDir::Data, root.path().join("probe"));
        for _ in 0..2 {
            assert_eq!(good.write().await.unwrap(), root.path().join("probe"));
        }
        let written = fs::read(root.path().join("probe/written")).unwrap();
        assert_eq!(written.len(), SIZE_BYTES);

        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        for (kind, name) in [(AgentDir::Data, "data directory"), (AgentDir::Secrets, "of secrets")]
        {
            let reason = Disk::new(kind, file.join("probe")).write().await.unwrap_err();
            assert!(reason.starts_with("cannot write to its") && reason.contains(name), "{reason}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_hangs_is_waited_for_once() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::new(AgentDir::Data, root.path().join("probe"));
        let _hanging = Arc::clone(&disk.writing).lock_owned().await;
        let reason = disk.write().await.unwrap_err();
        assert!(reason.contains("takes more than 20s"), "{reason}");
        assert!(!root.path().join("probe").exists(), "no second thread was started");
    }
}
