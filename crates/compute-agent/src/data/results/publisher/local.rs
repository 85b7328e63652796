//! Results that the agent serves itself, for a limited time.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use api_types::engine::PublisherType;
use api_types::execution::{LocalResultParams, PublishedResult};
use api_types::protocol::Work;
use api_types::quantity::Bytes;
use api_types::{ExecutionId, routes};
use futures_util::future::{BoxFuture, FutureExt};
use tracing::info;

use super::archive::Archive;
use super::publication::{Publication, Publisher, published};
use crate::data::retry::AttemptError;
use crate::host::clock;

/// Follows the execution's ID in the name of its archive.
const EXTENSION: &str = ".tar.gz";

pub(crate) struct Local {
    /// Without a slash at the end.
    base_url: String,
    published: PublishedDir,
}

/// The directory of published archives, one file per execution.
#[derive(Debug, Clone)]
pub(crate) struct PublishedDir {
    root: PathBuf,
    /// The size limit of all archives together.
    max_bytes: u64,
}

// === impl Local ===

impl Local {
    /// `base_url` is the URL of the agent for others; when it is empty, the listen address, or the
    /// machine's name when that is a wildcard address.
    pub(crate) fn new(base_url: &str, listen: SocketAddr, published: PublishedDir) -> Self {
        let base_url = match base_url.trim_end_matches('/') {
            "" if listen.ip().is_unspecified() => {
                let uname = rustix::system::uname();
                format!("http://{}:{}", uname.nodename().to_string_lossy(), listen.port())
            }
            "" => format!("http://{listen}"),
            set => set.to_owned(),
        };
        Self { base_url, published }
    }
}

impl Publisher for Local {
    fn admit(&self, _: &Work) -> Result<(), String> {
        Ok(())
    }

    fn publish<'a>(
        &'a self,
        run: &'a Publication<'a>,
        archive: &'a Archive,
    ) -> BoxFuture<'a, Result<PublishedResult, AttemptError>> {
        async move {
            let (published_dir, id) = (self.published.clone(), run.id);
            let (path, size_bytes) = (archive.path.clone(), archive.size_bytes);
            let taking = move || {
                seal(&path)?;
                published_dir.take_in(id, &path, size_bytes)
            };
            tokio::task::spawn_blocking(taking)
                .await
                .unwrap_or_else(|error| Err(io::Error::other(error).into()))?;
            let name = format!("{}{EXTENSION}", run.id);
            let url = format!("{}{}", self.base_url, routes::fill(routes::AGENT_RESULT, name));
            published(PublisherType::Local, &LocalResultParams { url })
        }
        .boxed()
    }
}

/// Dates the archive by the clock that decides its age, and syncs it: the results of an execution
/// that counts as completed outlive a crash of the machine. An archive from an earlier attempt keeps
/// its date.
fn seal(archive: &Path) -> io::Result<()> {
    let now = SystemTime::UNIX_EPOCH + steady_since_epoch();
    let sealing = |file: File| file.set_modified(now).and_then(|()| file.sync_all());
    match File::open(archive).and_then(sealing) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        sealed => sealed,
    }
}

fn steady_since_epoch() -> Duration {
    Duration::from_nanos(u64::try_from(clock::steady().0).unwrap_or_default())
}

// === impl PublishedDir ===

impl PublishedDir {
    pub(crate) fn new(root: PathBuf, max_bytes: u64) -> Self {
        Self { root, max_bytes }
    }

    /// Moves the archive in, and removes the oldest ones until all fit the limit.
    fn take_in(
        &self,
        id: ExecutionId,
        archive: &Path,
        size_bytes: u64,
    ) -> Result<(), AttemptError> {
        if size_bytes > self.max_bytes {
            let (size, max) = (Bytes(size_bytes), Bytes(self.max_bytes));
            return Err(AttemptError::permanent(format!(
                "the archive has {size}, and this node keeps {max} of archives in all \
                 (results.published_max_bytes); leave less in the result paths, or publish \
                 elsewhere"
            )));
        }
        std::fs::create_dir_all(&self.root)?;
        let path = self.of(id);
        match std::fs::rename(archive, &path) {
            // An earlier attempt got this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {}
            moved => moved?,
        }
        File::open(&self.root)?.sync_all()?;
        Ok(self.shrink(&path)?)
    }

    fn shrink(&self, but: &Path) -> io::Result<()> {
        let (mut archives, mut total_bytes) = (Vec::new(), 0);
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            let metadata = match std::fs::metadata(&path) {
                // Another publication, or the sweep, removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            total_bytes += metadata.len();
            archives.push((metadata.modified()?, metadata.len(), path));
        }
        archives.sort();
        for (_, bytes, path) in archives.into_iter().filter(|(_, _, path)| path != but) {
            if total_bytes <= self.max_bytes {
                break;
            }
            info!(path = %path.display(), "removed a published archive to free space for a newer one");
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => total_bytes -= bytes,
            }
        }
        Ok(())
    }

    /// Where the archive of an execution is, if it has one.
    pub(crate) fn of(&self, id: ExecutionId) -> PathBuf {
        self.root.join(format!("{id}{EXTENSION}"))
    }

    /// The archive of this name, if the name is valid.
    pub(crate) fn named(&self, name: &str) -> Option<PathBuf> {
        Some(self.of(name.strip_suffix(EXTENSION)?.parse().ok()?))
    }

    /// Removes the archives published longer ago than this, and returns how many.
    pub(crate) fn remove_older_than(&self, age: Duration) -> io::Result<usize> {
        let now = steady_since_epoch();
        let entries = match std::fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            entries => entries?,
        };
        let mut removed = 0;
        for entry in entries {
            let entry = entry?;
            let modified = entry.metadata()?.modified()?;
            let made_at = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            if now.saturating_sub(made_at) > age {
                std::fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_kept_for_its_time_and_no_other_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        let published = PublishedDir::new(root.path().join("published"), 1000);
        assert_eq!(published.remove_older_than(Duration::ZERO).unwrap(), 0);
        std::fs::create_dir(root.path().join("published")).unwrap();
        let id = crate::testing::execution_id(1);
        let path = published.named(&format!("{id}.tar.gz")).unwrap();
        std::fs::write(&path, "archive").unwrap();
        assert_eq!(published.remove_older_than(Duration::from_secs(60)).unwrap(), 0);
        let hour_ago = SystemTime::UNIX_EPOCH + steady_since_epoch() - Duration::from_secs(3600);
        std::fs::File::open(&path).unwrap().set_modified(hour_ago).unwrap();
        assert_eq!(published.remove_older_than(Duration::from_secs(60)).unwrap(), 1);
        assert!(!path.exists());
        for name in ["../ledger.sqlite", "x.tar.gz", "", "e-1.tar.gz", &id.to_string()] {
            assert_eq!(published.named(name), None, "{name}");
        }
    }

    #[test]
    fn archives_beyond_the_limit_are_removed_oldest_first() {
        let root = tempfile::tempdir().unwrap();
        let published = PublishedDir::new(root.path().join("published"), 25);
        let archive = root.path().join("archive.tar.gz");
        let take_in = |number: u128, bytes: usize| {
            std::fs::write(&archive, vec![b'x'; bytes]).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(number.try_into().unwrap());
            std::fs::File::open(&archive).unwrap().set_modified(at).unwrap();
            published.take_in(crate::testing::execution_id(number), &archive, bytes as u64)
        };
        let kept = || -> Vec<u128> {
            let is_there =
                |number: &u128| published.of(crate::testing::execution_id(*number)).exists();
            (1..=4).filter(is_there).collect()
        };
        for number in [1, 2, 3] {
            take_in(number, 10).unwrap();
        }
        assert_eq!(kept(), [2, 3]);
        take_in(4, 25).unwrap();
        assert_eq!(kept(), [4]);
        let Err(AttemptError::Permanent(refused)) = take_in(1, 26) else {
            panic!("it is too large")
        };
        assert!(refused.message.starts_with("the archive has 26 B, and this node keeps 25 B"));
        assert_eq!(kept(), [4]);
    }

    #[test]
    fn the_url_leads_to_the_agent() {
        let at = |base_url: &str, listen: &str| {
            Local::new(base_url, listen.parse().unwrap(), PublishedDir::new(PathBuf::new(), 0))
                .base_url
        };
        assert_eq!(at("", "127.0.0.1:12"), "http://127.0.0.1:12");
        assert_eq!(at("https://node.example/agent/", "0.0.0.0:1"), "https://node.example/agent");
        let any = at("", "0.0.0.0:12");
        assert!(any.ends_with(":12") && !any.contains("0.0.0.0"), "{any}");
    }
}
