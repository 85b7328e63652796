//! Removes, measures and walks untrusted directory trees.
//!
//! A task may nest its directories deeper than the kernel resolves a path, or than a thread's
//! stack allows a function to call itself. So trees are walked over open directories, never through
//! links, to a bounded depth; only removal goes as deep as there is something to remove.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, Stat};
use rustix::io::Errno;
use unpack::{MAX_DEPTH, open_directory};

/// Entries of one tree that are counted; their names take 140 MB at most.
const MAX_ENTRIES: usize = 500_000;

/// The size of a tree that exceeds the bounds: more than any limit.
pub(crate) const IMMEASURABLE: u64 = u64::MAX;

/// A tree that is not walked to its end.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("is nested deeper than {MAX_DEPTH} directories, or has more than {MAX_ENTRIES} entries")]
pub(crate) struct Unbounded;

/// One entry on a walk.
pub(crate) struct Entry<'a> {
    /// The directory that it is in.
    pub(crate) directory: BorrowedFd<'a>,
    pub(crate) name: &'a OsStr,
    /// Relative to the root of the walk.
    pub(crate) path: &'a Path,
    pub(crate) stat: &'a Stat,
}

// === impl Entry ===

impl Entry<'_> {
    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or_default()
    }
}

/// Visits everything below a directory, ordered by name, a directory before its content. Entries
/// that come and go during the walk may or may not be visited. An error of [`Unbounded`] ends the
/// walk.
pub(crate) fn walk(
    root: &Path,
    mut visit: impl FnMut(&Entry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let root = open_directory(CWD, root.as_os_str())?;
    let mut walk = Walk { path: PathBuf::new(), seen: 0 };
    walk.go(root.as_fd(), 0, &mut visit)
}

/// A walk in progress.
struct Walk {
    /// Of the directory that it is in.
    path: PathBuf,
    seen: usize,
}

// === impl Walk ===

impl Walk {
    /// Calls itself at most [`MAX_DEPTH`] times.
    fn go(
        &mut self,
        directory: BorrowedFd<'_>,
        depth: usize,
        visit: &mut dyn FnMut(&Entry<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut names = names(directory, MAX_ENTRIES - self.seen + 1)?;
        self.seen += names.len();
        if self.seen > MAX_ENTRIES {
            return Err(unbounded());
        }
        names.sort_unstable();
        for name in names {
            let Some(stat) = or_gone(rustix::fs::statat(
                directory,
                name.as_os_str(),
                AtFlags::SYMLINK_NOFOLLOW,
            ))?
            else {
                continue;
            };
            self.path.push(&name);
            let entry = Entry { directory, name: &name, path: &self.path, stat: &stat };
            visit(&entry)?;
            if entry.kind() == FileType::Directory {
                if depth + 1 > MAX_DEPTH {
                    return Err(unbounded());
                }
                if let Some(inner) = or_absent(open_directory(directory, &name))? {
                    self.go(inner.as_fd(), depth + 1, visit)?;
                }
            }
            self.path.pop();
        }
        Ok(())
    }
}

/// The bytes of the files at or below a path; 0 if it does not exist, [`IMMEASURABLE`] if it exceeds
/// the bounds of a walk. Files that come and go during the walk may or may not count.
pub(crate) fn size_of(path: &Path) -> io::Result<u64> {
    measure(path, 0)
}

/// As [`size_of`], with the blocks of the directories: a task may fill a disk with them alone.
pub(crate) fn space_of(path: &Path) -> io::Result<u64> {
    /// The unit of `st_blocks`.
    const BLOCK_BYTES: u64 = 512;
    measure(path, BLOCK_BYTES)
}

/// The number of entries below a directory, as far as they are counted; 0 if it does not exist. It
/// reads directories alone: to ask for the size of each file as well takes ten times as long, and
/// minutes on a slow disk.
pub(crate) fn entries_in(path: &Path) -> io::Result<u64> {
    let mut count = 0;
    if let Some(root) = or_absent(open_directory(CWD, path.as_os_str()))? {
        count_in(root.as_fd(), 0, &mut count)?;
    }
    Ok(count)
}

/// Adds the entries below a directory, up to the bound of a walk, which a tree that is nested too deep
/// reaches. Calls itself at most [`MAX_DEPTH`] times.
fn count_in(directory: BorrowedFd<'_>, depth: usize, count: &mut u64) -> io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        *count += 1;
        if *count >= MAX_ENTRIES as u64 {
            return Ok(());
        }
        // Some file systems do not say what an entry is.
        let may_be_directory = matches!(entry.file_type(), FileType::Directory | FileType::Unknown);
        // It may be none, have just gone, or be closed to the agent by its task.
        let Some(inner) = may_be_directory
            .then(|| open_directory(directory, OsStr::from_bytes(name)).ok())
            .flatten()
        else {
            continue;
        };
        match depth < MAX_DEPTH {
            true => count_in(inner.as_fd(), depth + 1, count)?,
            false => *count = MAX_ENTRIES as u64,
        }
    }
    Ok(())
}

fn measure(path: &Path, directory_block_bytes: u64) -> io::Result<u64> {
    let Some(metadata) = or_absent(fs::symlink_metadata(path))? else { return Ok(0) };
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut bytes: u64 = 0;
    let walked = walk(path, |entry| {
        let taken = match entry.kind() {
            FileType::Directory => {
                u64::try_from(entry.stat.st_blocks).unwrap_or_default() * directory_block_bytes
            }
            _ => entry.size_bytes(),
        };
        bytes = bytes.saturating_add(taken);
        Ok(())
    });
    match walked {
        Err(error) if is_unbounded(&error) => Ok(IMMEASURABLE),
        walked => Ok(or_absent(walked)?.map_or(0, |()| bytes)),
    }
}

/// Makes a tree readable for everybody; executables stay executable.
pub(crate) fn make_readable(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    const FOR_ALL: u32 = 0o755;
    fs::set_permissions(directory, fs::Permissions::from_mode(FOR_ALL))?;
    walk(directory, |entry| {
        let mode = match entry.kind() {
            FileType::Directory => FOR_ALL,
            FileType::RegularFile => {
                let run = if entry.stat.st_mode & 0o100 == 0 { 0 } else { 0o111 };
                (entry.stat.st_mode & FOR_ALL) | 0o444 | run
            }
            _ => return Ok(()),
        };
        // It is no link: nothing else writes to this tree.
        Ok(rustix::fs::chmodat(
            entry.directory,
            entry.name,
            Mode::from_raw_mode(mode),
            AtFlags::empty(),
        )?)
    })
}

/// Removes a file or directory; it is fine if there is none.
pub(crate) fn remove_all(path: &Path) -> io::Result<()> {
    let Some(metadata) = or_absent(fs::symlink_metadata(path))? else { return Ok(()) };
    if !metadata.is_dir() {
        return or_absent(fs::remove_file(path)).map(drop);
    }
    let root = open_for_removal(CWD, path.as_os_str())?;
    let mut removal = Removal { root: root.as_fd(), moved: 0 };
    removal.clear(root.as_fd(), 0)?;
    or_absent(fs::remove_dir(path)).map(drop)
}

/// A removal in progress.
struct Removal<'a> {
    root: BorrowedFd<'a>,
    /// Directories that were moved up so far.
    moved: u64,
}

// === impl Removal ===

impl Removal<'_> {
    /// Empties a directory. A directory that lies too deep is moved to the root, where the loop
    /// over the root finds it again: so this calls itself at most [`MAX_DEPTH`] times.
    fn clear(&mut self, directory: BorrowedFd<'_>, depth: usize) -> io::Result<()> {
        /// Names in memory at the same time.
        const BATCH: usize = 1_000;
        loop {
            let batch = names(directory, BATCH)?;
            if batch.is_empty() {
                return Ok(());
            }
            for name in batch {
                self.remove(directory, &name, depth)?;
            }
        }
    }

    fn remove(&mut self, directory: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            // What Linux, and what POSIX says of a directory.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(error) => return Err(error.into()),
        }
        if depth == MAX_DEPTH {
            let name_in_root = format!(".removing-{}", self.moved);
            self.moved += 1;
            return or_gone(rustix::fs::renameat(directory, name, self.root, name_in_root))
                .map(drop);
        }
        let Some(inner) = or_absent(open_for_removal(directory, name))? else { return Ok(()) };
        self.clear(inner.as_fd(), depth + 1)?;
        or_gone(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)).map(drop)
    }
}

/// Opens a directory whose owner, the agent, may have no permission to read it.
fn open_for_removal(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    match open_directory(at, name) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            rustix::fs::chmodat(at, name, Mode::RWXU, AtFlags::empty())?;
            open_directory(at, name)
        }
        opened => opened,
    }
}

/// Names of a directory's entries, as many at most.
fn names(directory: BorrowedFd<'_>, most: usize) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsString::from_vec(OsStr::from_bytes(name).as_bytes().to_vec()));
        }
        if names.len() == most {
            break;
        }
    }
    Ok(names)
}

fn unbounded() -> io::Error {
    io::Error::other(Unbounded)
}

pub(crate) fn is_unbounded(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Unbounded>())
}

fn or_gone<T>(outcome: Result<T, Errno>) -> io::Result<Option<T>> {
    or_absent(outcome.map_err(io::Error::from))
}

fn or_absent<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directories within directories, deeper than a path can name.
    fn nest(root: &Path, levels: usize) {
        fs::create_dir_all(root).unwrap();
        let mut directory = open_directory(CWD, root.as_os_str()).unwrap();
        for _ in 0..levels {
            rustix::fs::mkdirat(&directory, "d", Mode::RWXU).unwrap();
            directory = open_directory(directory.as_fd(), OsStr::new("d")).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_removed_and_counts_as_immeasurable() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        nest(&root, 18_000);
        // As on a thread of the blocking pool, or smaller.
        let removing = std::thread::Builder::new().stack_size(1 << 20).spawn(move || {
            assert_eq!(size_of(&root).unwrap(), IMMEASURABLE);
            assert_eq!(entries_in(&root).unwrap(), MAX_ENTRIES as u64);
            assert!(is_unbounded(&make_readable(&root).unwrap_err()));
            remove_all(&root).unwrap();
            assert!(!root.exists());
        });
        removing.unwrap().join().unwrap();
    }

    #[test]
    fn sizes_count_files_and_directories_but_follow_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::write(root.join("sub/a"), "12345").unwrap();
        fs::write(dir.path().join("outside"), "1234567890").unwrap();
        std::os::unix::fs::symlink("../outside", root.join("l")).unwrap();
        let directory = fs::metadata(root.join("sub")).unwrap();
        let blocks = std::os::unix::fs::MetadataExt::blocks(&directory) * 512;
        let files = 5 + "../outside".len() as u64;
        assert_eq!(size_of(&root).unwrap(), files);
        assert_eq!(space_of(&root).unwrap(), files + blocks);
        assert_eq!(size_of(&root.join("sub/a")).unwrap(), 5);
        assert_eq!(size_of(&root.join("absent")).unwrap(), 0);
        assert_eq!((entries_in(&root).unwrap(), entries_in(&root.join("absent")).unwrap()), (3, 0));
        remove_all(&root).unwrap();
        remove_all(&dir.path().join("outside")).unwrap();
        remove_all(&root).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
