//! The directory of secrets: in memory, and for the agent's user alone.
//!
//! Files of a task are mounted from here, because a container's own memory file system cannot be
//! filled from outside before it starts. They outlive the agent, like the tasks, and end with the
//! machine.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use api_types::ExecutionId;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use super::settings::{InvalidSettings, Settings};
use super::tree::remove_all;

/// What systemd gives a unit with `RuntimeDirectory=`.
const RUNTIME_DIRECTORY: &str = "RUNTIME_DIRECTORY";

/// In memory on every Linux.
const SHARED_MEMORY: &str = "/dev/shm";

/// Begins the name of a directory there.
const PREFIX: &str = "compute-agent-";

/// Random bytes in the name.
const NAME_BYTES: usize = 16;

/// The file of the data directory that has the name.
const NOTE: &str = "secrets-dir";

const MODE: u32 = 0o700;

/// Of the directories below that of an execution: the task's user passes through them.
const TREE_MODE: u32 = 0o755;

/// Every user inside the task may read its files. On the node, only the agent's user may enter the
/// directory that holds them.
const FILE_MODE: u32 = 0o444;

/// Of file systems in memory: tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The directory, on a file system in memory.
#[derive(Debug, Clone)]
pub(crate) struct SecretsDir {
    root: PathBuf,
}

// === impl SecretsDir ===

impl SecretsDir {
    /// The directory that the settings name, or one of this agent's own; `None` where there is no
    /// memory file system for it.
    pub(crate) fn open(
        settings: &Settings,
        data_dir: &Path,
    ) -> Result<Option<Self>, InvalidSettings> {
        let named = &settings.secrets_dir;
        if !named.as_os_str().is_empty() {
            return Self::at(named).map(Some).map_err(|error| InvalidSettings::Refused {
                key: "secrets_dir",
                reason: format!("cannot keep secrets in {}: {error}", named.display()),
            });
        }
        let opened = own_place(data_dir).and_then(|own| Self::at(&own));
        Ok(opened
            .inspect_err(|error| {
                tracing::warn!(%error, "this node accepts no tasks with secrets");
            })
            .ok())
    }

    fn at(place: &Path) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(MODE).create(place)?;
        // Below /dev/shm any user may have made it before.
        let found = fs::symlink_metadata(place)?;
        if !found.is_dir() || found.uid() != rustix::process::geteuid().as_raw() {
            let message = format!("{} belongs to another user", place.display());
            return Err(io::Error::other(message));
        }
        fs::set_permissions(place, Permissions::from_mode(MODE))?;
        let kind = rustix::fs::statfs(place)?.f_type;
        if !IN_MEMORY.contains(&kind) {
            let message = format!("{} is not on a file system in memory (tmpfs)", place.display());
            return Err(io::Error::other(message));
        }
        Ok(Self { root: fs::canonicalize(place)? })
    }

    /// Where the files of an execution are, laid out as its task sees them.
    pub(crate) fn tree(&self, id: ExecutionId) -> PathBuf {
        self.execution_dir(id).join("files")
    }

    /// Where the variables of an execution are, for an engine that reads them from a file.
    pub(crate) fn variables(&self, id: ExecutionId) -> PathBuf {
        self.execution_dir(id).join("variables.json")
    }

    /// Writes a file that a task sees at this absolute path, replacing an earlier one.
    pub(crate) fn write_file(&self, id: ExecutionId, path: &str, bytes: &[u8]) -> io::Result<()> {
        let place = below(&self.tree(id), path);
        let parent = place.parent().ok_or(io::ErrorKind::InvalidInput)?;
        DirBuilder::new().recursive(true).mode(TREE_MODE).create(parent)?;
        write(&place, bytes, FILE_MODE)
    }

    /// Writes the variables of an execution, for the agent's user alone.
    pub(crate) fn write_variables(&self, id: ExecutionId, json: &[u8]) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(TREE_MODE).create(self.execution_dir(id))?;
        write(&self.variables(id), json, 0o400)
    }

    pub(crate) fn remove(&self, id: ExecutionId) -> io::Result<()> {
        remove_all(&self.execution_dir(id))
    }

    /// Every execution that has something here.
    pub(crate) fn list(&self) -> io::Result<Vec<ExecutionId>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            ids.extend(
                entry?.file_name().to_str().and_then(|name| name.parse::<ExecutionId>().ok()),
            );
        }
        Ok(ids)
    }

    /// What probes of this node write, and mount into twins.
    pub(crate) fn probe(&self) -> PathBuf {
        self.root.join("probe")
    }

    fn execution_dir(&self, id: ExecutionId) -> PathBuf {
        self.root.join(id.to_string())
    }
}

/// An absolute path of a task, in a tree on the node.
pub(crate) fn below(tree: &Path, path: &str) -> PathBuf {
    tree.join(path.trim_matches('/'))
}

/// Its own for each data directory, as several agents may run on a machine.
fn own_place(data_dir: &Path) -> io::Result<PathBuf> {
    let of_unit = std::env::var_os(RUNTIME_DIRECTORY).filter(|paths| !paths.is_empty());
    match of_unit {
        // The first, of several.
        Some(paths) => Ok(std::env::split_paths(&paths).next().unwrap_or_default().join("secrets")),
        None => random_place(data_dir, Path::new(SHARED_MEMORY)),
    }
}

/// A directory with a name that no other user can guess, kept in the data directory: a user who makes a
/// directory of that name first keeps this node from accepting secrets. Once the directory is gone,
/// as after a restart of the machine, its name is known, and another takes its place.
fn random_place(data_dir: &Path, shared: &Path) -> io::Result<PathBuf> {
    let note = data_dir.join(NOTE);
    let known = fs::read_to_string(&note).ok().filter(|name| is_name(name));
    if let Some(place) = known.map(|name| shared.join(name)).filter(|place| is_own(place)) {
        return Ok(place);
    }
    let mut random = [0; NAME_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("no random bytes"))?;
    let name = format!("{PREFIX}{}", hex(&random));
    write(&note, name.as_bytes(), 0o600)?;
    let place = shared.join(name);
    // Tasks that an earlier release started have their files there.
    let digest = digest(&SHA256, data_dir.as_os_str().as_encoded_bytes());
    let former = shared.join(format!("{PREFIX}{}", hex(&digest.as_ref()[..8])));
    if is_own(&former) {
        fs::rename(&former, &place)?;
    }
    Ok(place)
}

fn is_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|random| {
        random.len() == 2 * NAME_BYTES && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

fn is_own(place: &Path) -> bool {
    fs::symlink_metadata(place)
        .is_ok_and(|found| found.is_dir() && found.uid() == rustix::process::geteuid().as_raw())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whole or not at all: a container that is about to start never sees a part.
fn write(place: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut temporary = place.as_os_str().to_owned();
    temporary.push(".new");
    let temporary = PathBuf::from(temporary);
    drop(fs::remove_file(&temporary));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    fs::rename(&temporary, place)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::execution_id;

    fn settings(place: &Path) -> Settings {
        Settings { secrets_dir: place.to_owned(), ..Settings::default() }
    }

    #[test]
    fn files_are_the_tasks_to_read_and_nobody_elses_to_reach() {
        let dir = tempfile::tempdir_in(SHARED_MEMORY).unwrap();
        let place = dir.path().join("secrets");
        let secrets = SecretsDir::open(&settings(&place), dir.path()).unwrap().unwrap();
        let (id, other) = (execution_id(1), execution_id(2));
        for value in ["first", "second"] {
            secrets.write_file(id, "/run/secrets/db", value.as_bytes()).unwrap();
            let file = secrets.tree(id).join("run/secrets/db");
            assert_eq!(fs::read_to_string(&file).unwrap(), value);
            assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o444);
        }
        secrets.write_variables(other, b"{}").unwrap();
        assert_eq!(fs::metadata(secrets.variables(other)).unwrap().mode() & 0o777, 0o400);
        assert_eq!(fs::metadata(&place).unwrap().mode() & 0o777, 0o700);

        let mut held = secrets.list().unwrap();
        held.sort();
        assert_eq!(held, [id, other]);
        secrets.remove(id).unwrap();
        secrets.remove(other).unwrap();
        assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
    }

    #[test]
    fn a_place_on_a_disk_is_refused() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let refused = SecretsDir::open(&settings(dir.path()), dir.path()).unwrap_err();
        assert!(refused.to_string().contains("not on a file system in memory"), "{refused}");
    }

    #[test]
    fn the_place_in_shared_memory_has_a_random_name_for_as_long_as_it_is_there() {
        let [data_dir, other, shared] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let place =
            |data_dir: &tempfile::TempDir| random_place(data_dir.path(), shared.path()).unwrap();
        let first = place(&data_dir);
        assert!(is_name(first.file_name().unwrap().to_str().unwrap()), "{first:?}");
        assert_ne!(first, place(&other));
        fs::create_dir(&first).unwrap();
        assert_eq!(first, place(&data_dir), "at the next start");
        // The machine was restarted, and another user knew the name.
        fs::remove_dir(&first).unwrap();
        fs::write(&first, "").unwrap();
        assert_ne!(first, place(&data_dir));
        fs::write(data_dir.path().join(NOTE), "../../etc").unwrap();
        assert!(place(&data_dir).starts_with(shared.path()));
        assert_eq!(place(&data_dir).parent(), Some(shared.path()));
    }

    #[test]
    fn what_an_earlier_release_left_for_its_tasks_is_taken_over() {
        let [data_dir, shared] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let digest = digest(&SHA256, data_dir.path().as_os_str().as_encoded_bytes());
        let former = shared.path().join(format!("{PREFIX}{}", hex(&digest.as_ref()[..8])));
        fs::create_dir(&former).unwrap();
        fs::write(former.join("secret"), "value").unwrap();
        let place = random_place(data_dir.path(), shared.path()).unwrap();
        assert_eq!(fs::read_to_string(place.join("secret")).unwrap(), "value");
        assert!(!former.exists());
        assert_eq!(random_place(data_dir.path(), shared.path()).unwrap(), place);
    }
}
