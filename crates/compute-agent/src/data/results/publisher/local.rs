//! Results that the agent serves itself, for a limited time.
//!
//! Next to each archive a file names its namespace: archives outlive what the ledger knows of their
//! executions, and when there is no more room, the namespace with the most loses its oldest.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
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
use crate::data::retention::{Bounds, Item, superfluous};
use crate::data::retry::AttemptError;
use crate::host::clock;

/// Follows the execution's ID in the name of its archive.
const EXTENSION: &str = ".tar.gz";

/// Follows the execution's ID in the name of the file that holds the namespace of its archive.
const OWNER_EXTENSION: &str = ".namespace";

/// Archives of all namespaces together: each takes two inodes, however small it is.
const MAX_ARCHIVES: usize = 10_000;

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
    /// The namespaces of archives that were read before, by the paths of the archives.
    owners: Arc<Mutex<Owners>>,
}

type Owners = HashMap<PathBuf, String>;

/// The archives, in the order of their paths in `paths`.
struct Archives {
    paths: Vec<PathBuf>,
    items: Vec<Item<SystemTime>>,
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
            let namespace = run.work.namespace.clone();
            let taking = move || {
                seal(&path)?;
                published_dir.take_in(id, &namespace, &path, size_bytes)
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
        Self { root, max_bytes, owners: Arc::default() }
    }

    /// Moves the archive in, and removes others of the namespaces with the most until all fit.
    fn take_in(
        &self,
        id: ExecutionId,
        namespace: &str,
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
        let path = self.archive_path(id);
        let age = SystemTime::UNIX_EPOCH;
        let newest = Item { owner: namespace.to_owned(), age, bytes: size_bytes };
        // One publication at a time: two that each find room may not both have it.
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let superfluous = self.superfluous(&path, newest, &mut owners)?;
        std::fs::write(self.owner_of(id), namespace)?;
        match std::fs::rename(archive, &path) {
            // An earlier attempt got this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {}
            moved => moved?,
        }
        File::open(&self.root)?.sync_all()?;
        for path in superfluous {
            info!(path = %path.display(), "removed a published archive to free space for a newer one");
            remove(&path)?;
        }
        Ok(())
    }

    /// The archives that must go so that this one fits; or a refusal, if nothing but what belongs to
    /// namespaces with less could go.
    fn superfluous(
        &self,
        path: &Path,
        newest: Item<SystemTime>,
        owners: &mut Owners,
    ) -> Result<Vec<PathBuf>, AttemptError> {
        let Archives { mut paths, mut items } = self.archives(path, owners)?;
        let others_bytes: u64 = items.iter().map(|item| item.bytes).sum();
        let (own, size_bytes) = (items.len(), newest.bytes);
        // Its own date may be that of an earlier attempt.
        let age = items.iter().map(|item| item.age).fold(newest.age, Ord::max);
        items.push(Item { age, ..newest });
        paths.push(path.to_owned());
        let bounds = Bounds { bytes: self.max_bytes, count: MAX_ARCHIVES };
        let gone = superfluous(&items, bounds);
        if gone.contains(&own) {
            let (size, others) = (Bytes(size_bytes), Bytes(others_bytes));
            let max = Bytes(self.max_bytes);
            return Err(AttemptError::permanent(format!(
                "the archive has {size}, more than its namespace's share of the {max} of archives \
                 that this node keeps (results.published_max_bytes), of which {others} are in use; \
                 leave less in the result paths, or publish elsewhere"
            )));
        }
        Ok(gone.into_iter().map(|index| paths[index].clone()).collect())
    }

    /// All archives except this one.
    fn archives(&self, but: &Path, owners: &mut Owners) -> io::Result<Archives> {
        let (mut paths, mut items) = (Vec::new(), Vec::new());
        let mut known = std::mem::take(owners);
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            if path == but || !is_archive(&path) {
                continue;
            }
            let metadata = match std::fs::metadata(&path) {
                // Another publication, or the sweep, removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let owner = known.remove(&path).unwrap_or_else(|| noted_owner(&path));
            owners.insert(path.clone(), owner.clone());
            items.push(Item { owner, age: metadata.modified()?, bytes: metadata.len() });
            paths.push(path);
        }
        Ok(Archives { paths, items })
    }

    fn owner_of(&self, id: ExecutionId) -> PathBuf {
        self.root.join(format!("{id}{OWNER_EXTENSION}"))
    }

    /// Where the archive of an execution is, if it has one.
    pub(crate) fn archive_path(&self, id: ExecutionId) -> PathBuf {
        self.root.join(format!("{id}{EXTENSION}"))
    }

    /// The archive of this name, if the name is valid.
    pub(crate) fn named(&self, name: &str) -> Option<PathBuf> {
        Some(self.archive_path(name.strip_suffix(EXTENSION)?.parse().ok()?))
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
            if now.saturating_sub(made_at) > age && is_archive(&entry.path()) {
                remove(&entry.path())?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Removes an archive and the file next to it.
fn remove(archive: &Path) -> io::Result<()> {
    for path in [archive.to_owned(), owner_file(archive)] {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_archive(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.ends_with(EXTENSION))
}

/// The file that names the namespace of an archive.
fn owner_file(archive: &Path) -> PathBuf {
    let name = archive.to_string_lossy();
    PathBuf::from(format!("{}{OWNER_EXTENSION}", name.trim_end_matches(EXTENSION)))
}

/// Empty for an archive of a release that did not note it: all of these count as one namespace.
fn noted_owner(archive: &Path) -> String {
    std::fs::read_to_string(owner_file(archive)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::execution_id;

    #[test]
    fn an_archive_is_kept_for_its_time_and_no_other_file_is_named() {
        let root = tempfile::tempdir().unwrap();
        let published = PublishedDir::new(root.path().join("published"), 1000);
        assert_eq!(published.remove_older_than(Duration::ZERO).unwrap(), 0);
        std::fs::create_dir(root.path().join("published")).unwrap();
        let id = execution_id(1);
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

    /// A directory of archives by the numbers of their executions, which are their ages.
    struct Shelf {
        root: tempfile::TempDir,
        published: PublishedDir,
    }

    impl Shelf {
        fn new(max_bytes: u64) -> Self {
            let root = tempfile::tempdir().unwrap();
            let published = PublishedDir::new(root.path().join("published"), max_bytes);
            Self { root, published }
        }

        fn take_in(&self, number: u128, owner: &str, bytes: usize) -> Result<(), AttemptError> {
            let archive = self.root.path().join("archive.tar.gz");
            std::fs::write(&archive, vec![b'x'; bytes]).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(number.try_into().unwrap());
            File::open(&archive).unwrap().set_modified(at).unwrap();
            let id = execution_id(number);
            self.published.take_in(id, owner, &archive, bytes as u64)
        }

        fn kept(&self) -> Vec<u128> {
            let is_there =
                |number: &u128| self.published.archive_path(execution_id(*number)).exists();
            (1..=9).filter(is_there).collect()
        }
    }

    #[test]
    fn archives_beyond_the_limit_are_removed_oldest_first() {
        let shelf = Shelf::new(25);
        for number in [1, 2, 3] {
            shelf.take_in(number, "a", 10).unwrap();
        }
        assert_eq!(shelf.kept(), [2, 3]);
        shelf.take_in(4, "a", 25).unwrap();
        assert_eq!(shelf.kept(), [4]);
        let Err(AttemptError::Permanent(refused)) = shelf.take_in(1, "a", 26) else {
            panic!("it is too large")
        };
        assert!(refused.message.starts_with("the archive has 26 B, and this node keeps 25 B"));
        assert_eq!(shelf.kept(), [4]);
    }

    #[test]
    fn results_of_one_namespace_do_not_remove_the_archives_of_another() {
        let shelf = Shelf::new(40);
        shelf.take_in(1, "good", 10).unwrap();
        for number in 2..=5 {
            shelf.take_in(number, "hostile", 15).unwrap();
        }
        assert_eq!(shelf.kept(), [1, 4, 5]);
        // Nor does one that is as large as all of them.
        let Err(AttemptError::Permanent(refused)) = shelf.take_in(6, "hostile", 40) else {
            panic!("it is more than its share")
        };
        assert!(refused.message.contains("more than its namespace's share"), "{}", refused.message);
        assert_eq!(shelf.kept(), [1, 4, 5]);
        // An agent that starts anew knows the namespaces as well.
        let again = PublishedDir::new(shelf.published.root.clone(), 40);
        let shelf = Shelf { published: again, ..shelf };
        shelf.take_in(6, "good", 10).unwrap();
        assert_eq!(shelf.kept(), [1, 5, 6]);
        let names = std::fs::read_dir(shelf.root.path().join("published")).unwrap();
        assert_eq!(names.count(), 6, "each archive and its namespace");
    }

    #[test]
    fn an_archive_of_an_earlier_release_has_no_namespace_and_counts_with_the_others_of_them() {
        let shelf = Shelf::new(30);
        for number in [1, 2] {
            shelf.take_in(number, "?", 10).unwrap();
            std::fs::remove_file(owner_file(&shelf.published.archive_path(execution_id(number))))
                .unwrap();
        }
        let again = PublishedDir::new(shelf.published.root.clone(), 30);
        let shelf = Shelf { published: again, ..shelf };
        shelf.take_in(3, "good", 10).unwrap();
        assert_eq!(shelf.kept(), [1, 2, 3]);
        shelf.take_in(4, "good", 10).unwrap();
        assert_eq!(shelf.kept().len(), 3);
        assert!(shelf.kept().contains(&4));
    }

    #[test]
    fn the_url_leads_to_the_agent() {
        let none = || PublishedDir::new(PathBuf::new(), 0);
        let at =
            |url: &str, listen: &str| Local::new(url, listen.parse().unwrap(), none()).base_url;
        assert_eq!(at("", "127.0.0.1:12"), "http://127.0.0.1:12");
        assert_eq!(at("https://node.example/agent/", "0.0.0.0:1"), "https://node.example/agent");
        let any = at("", "0.0.0.0:12");
        assert!(any.ends_with(":12") && !any.contains("0.0.0.0"), "{any}");
    }
}
