//! The directory of published archives, one file per execution.
//!
//! Next to each archive a file names its namespace: archives outlive what the ledger knows of their
//! executions, and when there is no more room, the namespace with the most loses its oldest.
//!
//! Archives of jobs on which others depend stay as long as these go on, however old they are. Only
//! the orchestrator knows which they are, so the agent asks it before each removal ([`Needed`]).

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use api_types::ExecutionId;
use api_types::quantity::Bytes;
use tracing::info;

use crate::data::retention::{Bounds, Item, superfluous};
use crate::data::retry::AttemptError;
use crate::host::clock;

/// Follows the execution's ID in the name of its archive.
pub(super) const EXTENSION: &str = ".tar.gz";

/// Follows the execution's ID in the name of the file that holds the namespace of its archive.
const OWNER_EXTENSION: &str = ".namespace";

/// Archives of all namespaces together: each takes two inodes, however small it is.
const MAX_ARCHIVES: usize = 10_000;

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

/// What is known of archives: which were asked about, and which of them have to stay.
#[derive(Debug, Clone, Default)]
pub(super) struct Needed {
    asked: BTreeSet<ExecutionId>,
    needed: BTreeSet<ExecutionId>,
}

/// What became of an archive that is to be kept.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Kept,
    /// Others would have to go. Nothing has changed yet: ask first whether these are needed.
    Ask(Vec<ExecutionId>),
}

/// The archives, in the order of `ids`.
struct Archives {
    ids: Vec<ExecutionId>,
    /// Those that are not needed go first.
    items: Vec<Item<(bool, SystemTime)>>,
}

/// Dates the archive by the clock that decides its age, and syncs it: the results of an execution
/// that counts as completed outlive a crash of the machine. An archive from an earlier attempt keeps
/// its date.
pub(super) fn seal(archive: &Path) -> io::Result<()> {
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
    pub(super) fn take_in(
        &self,
        id: ExecutionId,
        namespace: &str,
        (archive, size_bytes): (&Path, u64),
        needed: &Needed,
    ) -> Result<Taken, AttemptError> {
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
        // One publication at a time: two that each find room may not both have it.
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = self.archives(&path, &mut owners, needed)?;
        let superfluous = others.superfluous(namespace, size_bytes, self.max_bytes)?;
        let ids: Vec<ExecutionId> = superfluous.iter().map(|place| others.ids[*place]).collect();
        if !needed.knows(&ids) {
            let all = std::mem::take(&mut others.ids);
            return Ok(Taken::Ask(if needed.asked.is_empty() { ids } else { all }));
        }
        std::fs::write(self.owner_of(id), namespace)?;
        match std::fs::rename(archive, &path) {
            // An earlier attempt got this far.
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.exists() => {}
            moved => moved?,
        }
        File::open(&self.root)?.sync_all()?;
        for id in ids {
            let is_needed = needed.needed.contains(&id);
            info!(%id, is_needed, "removed a published archive to free space for a newer one");
            remove(&self.archive_path(id))?;
        }
        Ok(Taken::Kept)
    }

    /// All archives except this one.
    fn archives(&self, but: &Path, owners: &mut Owners, needed: &Needed) -> io::Result<Archives> {
        let (mut ids, mut items) = (Vec::new(), Vec::new());
        let mut known = std::mem::take(owners);
        for entry in std::fs::read_dir(&self.root)? {
            let path = entry?.path();
            let Some(id) = id_of(&path).filter(|_| path != but) else { continue };
            let metadata = match std::fs::metadata(&path) {
                // Another publication, or the sweep, removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                metadata => metadata?,
            };
            let owner = known.remove(&path).unwrap_or_else(|| noted_owner(&path));
            owners.insert(path, owner.clone());
            let age = (needed.needed.contains(&id), metadata.modified()?);
            items.push(Item { owner, age, bytes: metadata.len() });
            ids.push(id);
        }
        Ok(Archives { ids, items })
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

    /// The archives that were published longer ago than this.
    pub(crate) fn older_than(&self, age: Duration) -> io::Result<Vec<ExecutionId>> {
        let now = steady_since_epoch();
        let entries = match std::fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut older = Vec::new();
        for entry in entries {
            let entry = entry?;
            let modified = entry.metadata()?.modified()?;
            let made_at = modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            if now.saturating_sub(made_at) > age {
                older.extend(id_of(&entry.path()));
            }
        }
        Ok(older)
    }

    pub(crate) fn remove(&self, ids: &[ExecutionId]) -> io::Result<()> {
        ids.iter().try_for_each(|id| remove(&self.archive_path(*id)))
    }
}

// === impl Needed ===

impl Needed {
    /// Of all that were asked about, these are needed.
    pub(super) fn learn(&mut self, asked: Vec<ExecutionId>, needed: Vec<ExecutionId>) {
        self.asked.extend(asked);
        self.needed.extend(needed);
    }

    fn knows(&self, ids: &[ExecutionId]) -> bool {
        ids.iter().all(|id| self.asked.contains(id))
    }
}

// === impl Archives ===

impl Archives {
    /// The places of those that must go so that an archive of this namespace fits; or a refusal, if
    /// nothing could go but what belongs to namespaces with less, or what other jobs need of its own
    /// namespace.
    fn superfluous(
        &mut self,
        namespace: &str,
        size_bytes: u64,
        max_bytes: u64,
    ) -> Result<Vec<usize>, AttemptError> {
        let others_bytes: u64 = self.items.iter().map(|item| item.bytes).sum();
        let own = self.items.len();
        // Its own date may be that of an earlier attempt.
        let newest = self.items.iter().map(|item| item.age.1).max();
        let age = (true, newest.unwrap_or(SystemTime::UNIX_EPOCH));
        self.items.push(Item { owner: namespace.to_owned(), age, bytes: size_bytes });
        let bounds = Bounds { bytes: max_bytes, count: MAX_ARCHIVES };
        let gone = superfluous(&self.items, bounds);
        let (size, others, max) = (Bytes(size_bytes), Bytes(others_bytes), Bytes(max_bytes));
        if gone.contains(&own) {
            return Err(AttemptError::permanent(format!(
                "the archive has {size}, more than its namespace's share of the {max} of archives \
                 that this node keeps (results.published_max_bytes), of which {others} are in use; \
                 leave less in the result paths, or publish elsewhere"
            )));
        }
        let is_needed = |place: &usize| {
            let item = &self.items[*place];
            item.age.0 && item.owner == namespace
        };
        if gone.iter().any(is_needed) {
            return Err(AttemptError::permanent(format!(
                "the archive has {size}, and of the {max} of archives that this node keeps \
                 (results.published_max_bytes) {others} are in use, which other jobs of its \
                 namespace need; leave less in the result paths, or publish elsewhere"
            )));
        }
        Ok(gone)
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

/// The execution that published this archive; none for other files.
fn id_of(path: &Path) -> Option<ExecutionId> {
    path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.parse().ok()
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
mod tests;
