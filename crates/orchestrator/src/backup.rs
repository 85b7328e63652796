//! Backups of the state: made while the service runs, checked, and restored into another directory.
//!
//! A backup never contains the cluster key, so a stolen backup reveals none of the cluster's keys and
//! secrets. A restore requires the key first.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use api_types::Timestamp;
use api_types::version::VersionRecord;
use control_plane::store::StoreError;
use control_plane::store::sqlite::backup as database;
use control_plane::store::sqlite::backup::BackupContents;
use serde::{Deserialize, Serialize};

use crate::files;
use crate::identity;
use crate::keys::{self, KeyError, KeyRing};
use crate::settings::{Settings, StoreKind};

/// Describes the backup. It is written last, so a backup that has it is complete.
const MANIFEST: &str = "backup.json";

/// What a data directory may hold before a restore.
const KEPT: [&str; 2] = [keys::CLUSTER_KEY, "orchestrator.lock"];

/// What a backup is, in its own directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Manifest {
    /// RFC 3339, UTC.
    create_time: String,
    /// The release that made it.
    release: String,
    /// The ID of the key that the keys of the cluster are encrypted with; empty where there are none.
    cluster_key: String,
}

/// Why a backup was not made, checked or restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("access {}", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not empty; name a new directory for the backup", .path.display())]
    Taken { path: PathBuf },
    #[error("{} holds no complete backup: {MANIFEST} is missing or damaged; make another one", .path.display())]
    Incomplete { path: PathBuf },
    #[error(
        "{} is not empty: it holds '{found}'; restore into an empty directory, which may hold the \
         cluster key alone",
        .path.display()
    )]
    NotEmpty { path: PathBuf, found: String },
    #[error(
        "{} is missing, and the keys in the backup are encrypted with the cluster key {id}; copy \
         that key there first, or name it with cluster_key_file",
        .path.display()
    )]
    NoKey { path: PathBuf, id: String },
    #[error(
        "the state is in PostgreSQL; back that up with its own tools, such as pg_basebackup, and \
         the cluster key separately"
    )]
    Shared,
    #[error("open the keys in the backup")]
    Keys(#[from] KeyError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Copies the state into this directory, as of one moment; returns what to tell the operator.
pub fn back_up(settings: &Settings, to: &Path) -> Result<String, BackupError> {
    if settings.store == StoreKind::Postgres {
        return Err(BackupError::Shared);
    }
    let io = |source| BackupError::Io { path: to.to_owned(), source };
    DirBuilder::new().recursive(true).mode(files::DIRECTORY_MODE).create(to).map_err(io)?;
    if fs::read_dir(to).map_err(io)?.next().is_some() {
        return Err(BackupError::Taken { path: to.to_owned() });
    }
    // Before the copy, so that nothing that happens from here on is missing without a word.
    let created = crate::clock::now();
    database::back_up(&settings.data_dir, to)?;
    copy(&settings.data_dir.join(identity::FILE), &to.join(identity::FILE))?;
    let contents = database::inspect_backup(to)?;
    let manifest = Manifest {
        create_time: created.rfc3339(),
        release: VersionRecord::current().git_version,
        cluster_key: keys::cluster_key_of(&contents.records)?.unwrap_or_default(),
    };
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| io(error.into()))?;
    files::write(&to.join(MANIFEST), &text, files::SECRET_MODE).map_err(io)?;
    Ok(format!("backed up to {}\n{}", to.display(), described(&manifest, &contents)))
}

/// Reads a backup as a whole; returns what to tell the operator.
pub fn check(from: &Path) -> Result<String, BackupError> {
    let (manifest, contents) = read(from)?;
    Ok(format!("{} is complete\n{}", from.display(), described(&manifest, &contents)))
}

/// Restores a backup into the data directory of these settings; returns what to tell the operator.
pub fn restore(settings: &Settings, from: &Path) -> Result<String, BackupError> {
    if settings.store == StoreKind::Postgres {
        return Err(BackupError::Shared);
    }
    let data_dir = &settings.data_dir;
    let io = |source| BackupError::Io { path: data_dir.clone(), source };
    let (manifest, contents) = read(from)?;
    DirBuilder::new().recursive(true).mode(files::DIRECTORY_MODE).create(data_dir).map_err(io)?;
    refuse_unless_empty(data_dir)?;
    let ring = KeyRing::open(data_dir, &settings.cluster_key_file, &contents.records);
    match ring.and_then(|ring| ring.open_all(&contents.records)) {
        Err(KeyError::NoClusterKey { path }) => {
            return Err(BackupError::NoKey { path, id: manifest.cluster_key });
        }
        opened => opened?,
    }
    database::restore(from, data_dir, || {
        copy(&from.join(identity::FILE), &data_dir.join(identity::FILE))
    })?;
    let since = &manifest.create_time;
    Ok(format!(
        "restored into {}\n{}Jobs submitted since {since} are gone, and agents stop their executions.\n\
         Tokens, node certificates and sign-ins that were revoked since {since} are valid again: revoke \
         them again.\n\
         Secrets and settings of namespaces are as they were then.\n",
        data_dir.display(),
        described(&manifest, &contents)
    ))
}

fn described(manifest: &Manifest, contents: &BackupContents) -> String {
    let BackupContents { last_commit, last_event, jobs, records: _ } = contents;
    let last_commit = last_commit.map_or_else(|| "never".to_owned(), Timestamp::rfc3339_seconds);
    let key = match manifest.cluster_key.as_str() {
        "" => "no key is needed to restore it".to_owned(),
        id => format!("a restore requires the cluster key {id}, which is not in it"),
    };
    format!(
        "State of {}: {jobs} jobs, last event {last_event}, last change {last_commit}; {key}.\n",
        manifest.create_time
    )
}

fn read(from: &Path) -> Result<(Manifest, BackupContents), BackupError> {
    let incomplete = || BackupError::Incomplete { path: from.to_owned() };
    let text = fs::read(from.join(MANIFEST)).map_err(|_| incomplete())?;
    let manifest = serde_json::from_slice(&text).map_err(|_| incomplete())?;
    if !from.join(identity::FILE).exists() {
        return Err(incomplete());
    }
    Ok((manifest, database::inspect_backup(from)?))
}

/// An interrupted restore is repeated.
fn refuse_unless_empty(data_dir: &Path) -> Result<(), BackupError> {
    if database::has_unfinished_restore(data_dir) {
        return Ok(());
    }
    let io = |source| BackupError::Io { path: data_dir.to_owned(), source };
    for entry in fs::read_dir(data_dir).map_err(io)? {
        let found = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if !KEPT.contains(&found.as_str()) {
            return Err(BackupError::NotEmpty { path: data_dir.to_owned(), found });
        }
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<(), BackupError> {
    let bytes =
        fs::read(from).map_err(|source| BackupError::Io { path: from.to_owned(), source })?;
    files::write(to, &bytes, files::SECRET_MODE)
        .map_err(|source| BackupError::Io { path: to.to_owned(), source })
}
