//! Unpacks untrusted tars: no entry leaves the directory, and size and number are bounded.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use bytes::{Buf, Bytes};
use tar::{Archive, EntryType};
use tokio::sync::mpsc;

use crate::host::disk::Disk;

/// Entries of one archive; a larger archive is refused, before the file system suffers.
const MAX_ENTRIES: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    #[error("it is larger than {limit_bytes} bytes when unpacked")]
    TooLarge {
        limit_bytes: u64,
        /// The size when unpacking stopped; the whole archive is at least as large.
        least_bytes: u64,
    },
    #[error("its entry '{path}' leads out of the archive")]
    Escape { path: String },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How unpacking treats the permissions in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modes {
    /// Everything becomes readable for all: the task runs as another user than the agent.
    Readable,
    /// Kept as they are, except that the agent keeps read and remove access to what it unpacked.
    Kept,
}

/// Unpacks files, directories and links below `into`, and skips other entries. Returns the total
/// bytes of all files.
///
/// A symbolic link may point anywhere, since the task resolves it inside its own file system;
/// readers of the directory on the node must not follow it.
pub(crate) fn unpack(
    reader: impl Read,
    into: &Path,
    limit_bytes: u64,
    modes: Modes,
    disk: &Disk,
) -> Result<u64, ArchiveError> {
    fs::create_dir_all(into)?;
    let mut archive = Archive::new(reader);
    let mut total_bytes: u64 = 0;
    let mut directories = Vec::new();
    for (at, entry) in archive.entries()?.enumerate() {
        if at >= MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        let mut entry = entry?;
        total_bytes = total_bytes.saturating_add(entry.size());
        if total_bytes > limit_bytes {
            return Err(ArchiveError::TooLarge { limit_bytes, least_bytes: total_bytes });
        }
        disk.take(entry.size())?;
        let kind = entry.header().entry_type();
        if !matches!(
            kind,
            EntryType::Regular
                | EntryType::Continuous
                | EntryType::Directory
                | EntryType::Link
                | EntryType::Symlink
        ) {
            continue;
        }
        let path = entry.path()?.into_owned();
        if !entry.unpack_in(into)? {
            return Err(ArchiveError::Escape { path: path.display().to_string() });
        }
        let place = unpacked_at(into, &path);
        match kind {
            EntryType::Directory => {
                fs::set_permissions(&place, Permissions::from_mode(0o755))?;
                directories.push((place, entry.header().mode()?));
            }
            EntryType::Regular | EntryType::Continuous => {
                let mode = modes.of_file(entry.header().mode()?);
                fs::set_permissions(place, Permissions::from_mode(mode))?;
            }
            // A link has no mode of its own, and its target is not the agent's to change.
            _ => {}
        }
    }
    // Modes of directories come last, deepest first: a directory may deny access to its content.
    for (place, mode) in directories.into_iter().rev() {
        // A later entry of the same name may have replaced it.
        if fs::symlink_metadata(&place)?.is_dir() {
            fs::set_permissions(place, Permissions::from_mode(modes.of_directory(mode)))?;
        }
    }
    Ok(total_bytes)
}

// === impl Modes ===

impl Modes {
    const fn of_file(self, mode: u32) -> u32 {
        match self {
            Self::Readable => (mode & 0o755) | 0o444,
            Self::Kept => (mode & 0o777) | 0o400,
        }
    }

    const fn of_directory(self, mode: u32) -> u32 {
        match self {
            Self::Readable => 0o755,
            Self::Kept => (mode & 0o777) | 0o700,
        }
    }
}

/// The path that an entry unpacks to: `join` alone would let an absolute path replace the
/// directory.
fn unpacked_at(into: &Path, entry: &Path) -> PathBuf {
    let plain = entry.components().filter(|part| matches!(part, Component::Normal(_)));
    into.join(plain.collect::<PathBuf>())
}

/// Lets a blocking thread read the chunks of an asynchronous stream.
pub(crate) struct ChunkReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

// === impl ChunkReader ===

impl ChunkReader {
    pub(crate) fn new(chunks: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { chunks, current: Bytes::new() }
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.current = chunk?,
                None => return Ok(0),
            }
        }
        let taken = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_disk;

    const LIMIT: u64 = 1 << 20;

    /// A tar of (kind, path, contents or link target); paths are written unchecked.
    fn tar_of(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (kind, path, text) in entries {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o600);
            header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
            let body = match kind {
                EntryType::Link | EntryType::Symlink => {
                    header.set_link_name_literal(text).unwrap();
                    ""
                }
                _ => text,
            };
            header.set_size(body.len() as u64);
            header.set_cksum();
            builder.append(&header, body.as_bytes()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    #[test]
    fn files_directories_and_links_come_out_readable() {
        let dir = tempfile::tempdir().unwrap();
        let tar = tar_of(&[
            (EntryType::Directory, "d/", ""),
            (EntryType::Regular, "d/a", "hello"),
            (EntryType::Symlink, "l", "d/a"),
            (EntryType::Fifo, "pipe", ""),
        ]);
        unpack(&tar[..], dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("l")).unwrap(), "hello");
        let mode = fs::metadata(dir.path().join("d/a")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o644);
        assert!(!dir.path().join("pipe").exists());
    }

    #[test]
    fn no_entry_leaves_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let outside_text = outside.to_str().unwrap();
        for (name, entries) in [
            ("dots", &[(EntryType::Regular, "../outside/x", "bad")][..]),
            ("deep dots", &[(EntryType::Regular, "a/../../outside/x", "bad")]),
            (
                "through a link",
                &[(EntryType::Symlink, "l", outside_text), (EntryType::Regular, "l/x", "bad")],
            ),
            ("hard link", &[(EntryType::Link, "h", "../secret")]),
        ] {
            fs::write(dir.path().join("secret"), "secret").unwrap();
            let into = dir.path().join("into");
            let result = unpack(&tar_of(entries)[..], &into, LIMIT, Modes::Readable, &any_disk());
            assert!(result.is_err(), "{name}");
            assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{name}");
            fs::remove_dir_all(&into).unwrap();
        }
    }

    #[test]
    fn an_absolute_path_stays_inside() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("into");
        let path = format!("{}/x", dir.path().display());
        unpack(
            &tar_of(&[(EntryType::Regular, &path, "kept")])[..],
            &into,
            LIMIT,
            Modes::Readable,
            &any_disk(),
        )
        .unwrap();
        assert!(!dir.path().join("x").exists());
        assert!(into.join(path.trim_start_matches('/')).exists());
    }

    #[test]
    fn an_archive_beyond_the_limit_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tar =
            tar_of(&[(EntryType::Regular, "a", "0123456789"), (EntryType::Regular, "b", "0")]);
        let error = unpack(&tar[..], dir.path(), 10, Modes::Readable, &any_disk()).unwrap_err();
        assert!(
            matches!(error, ArchiveError::TooLarge { limit_bytes: 10, least_bytes: 11 }),
            "{error}"
        );
    }

    #[test]
    fn a_cut_off_archive_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let tar = tar_of(&[(EntryType::Regular, "a", "0123456789")]);
        unpack(&tar[..515], dir.path(), LIMIT, Modes::Readable, &any_disk()).unwrap_err();
    }
}
