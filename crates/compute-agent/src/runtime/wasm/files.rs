//! The node's files that a program sees: its inputs, and directories for its results.
//!
//! WASI shows a program only directories, each under a name. An input that is a directory is shown
//! where it lies; one that is a file is linked into a directory tree below `inputs/` that mirrors
//! the program's view. Result paths lie below `results/`, laid out the same.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent_core::execution::Failure;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use rustix::fs::{FileType, Mode, OFlags};
use tar::{EntryType, Header};
use tokio::sync::mpsc;
use wasm_run::plan::Preopen;

use crate::data::inputs::placement::MountedInput;
use crate::host::tree;
use crate::runtime::{ExecutorError, Hidden, Run, result_paths};

/// Bytes per read of a result.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks buffered between the disk and the reader of the result.
const CHUNKS_AHEAD: usize = 16;

/// Creates the files that the program will see, replacing earlier ones.
pub(super) fn lay_out(dir: &Path, run: &Run) -> Result<Vec<Preopen>, Failure> {
    // The task names the paths, and not every path can exist.
    let on_disk = |path: &str, error| {
        Failure::refused(format!("cannot lay out '{path}' for the program: {error}"))
    };
    let mut shown: BTreeMap<String, Preopen> = BTreeMap::new();
    let mut show = |guest: &str, host: PathBuf, writable: bool| match shown.get(guest) {
        Some(other) if other.host != host => Err(Failure::task(format!(
            "two inputs, or an input and a result path, meet in '{guest}', and the wasm engine \
             can show only one of them there; give each a separate directory"
        ))),
        Some(_) => Ok(()),
        None => {
            shown.insert(guest.to_owned(), Preopen { host, guest: guest.to_owned(), writable });
            Ok(())
        }
    };
    for MountedInput { source, target, writable } in &run.inputs {
        let target = target.trim_end_matches('/');
        if fs::metadata(source).map_err(|error| on_disk(target, error))?.is_dir() {
            show(target, source.clone(), *writable)?;
            continue;
        }
        if *writable {
            return Err(Failure::task(format!(
                "the input at '{target}' is a file, and the wasm engine lets programs write to \
                 inputs that are directories only"
            )));
        }
        let (parent, _) = target.rsplit_once('/').unwrap_or_default();
        let parent = if parent.is_empty() { "/" } else { parent };
        let tree = dir.join("inputs");
        link(source, &below(&tree, target)).map_err(|error| on_disk(target, error))?;
        show(parent, below(&tree, parent), false)?;
    }
    // They stay in memory: the program sees the directories there.
    for path in &run.secrets.paths {
        let (parent, _) = path.rsplit_once('/').unwrap_or_default();
        let parent = if parent.is_empty() { "/" } else { parent };
        show(parent, run.secrets.on_node(parent), false)?;
    }
    for guest in result_paths::directories(&run.work) {
        let host = below(&results(dir), &guest);
        fs::create_dir_all(&host).map_err(|error| on_disk(&guest, error))?;
        show(&guest, host, true)?;
    }
    Ok(shown.into_values().collect())
}

fn results(dir: &Path) -> PathBuf {
    dir.join("results")
}

/// An absolute path of the program, in a tree on the node.
fn below(tree: &Path, guest: &str) -> PathBuf {
    tree.join(guest.trim_matches('/'))
}

/// Bytes that the program wrote and printed so far; `pid` is that of its runner, if it runs.
pub(super) fn written_bytes(dir: &Path, pid: Option<u32>) -> io::Result<u64> {
    let results = results(dir);
    let deleted = pid.map_or(0, |pid| deleted_bytes(pid, &results));
    let printed = tree::size_of(&dir.join("output"))?;
    Ok(tree::space_of(&results)?.saturating_add(printed).saturating_add(deleted))
}

/// What of a program's use of the disk is not in [`written_bytes`]: the number of its files.
pub(super) async fn hidden(dir: PathBuf) -> Hidden {
    let counting = tokio::task::spawn_blocking(move || tree::entries_in(&results(&dir)));
    let entries = counting.await.ok().and_then(Result::ok).unwrap_or_default();
    Hidden { written_bytes: 0, entries }
}

/// The bytes of the files on the disk of `results` that a process has open although no name is
/// left of them: they take space until it closes them.
fn deleted_bytes(pid: u32, results: &Path) -> u64 {
    let Ok(disk) = fs::metadata(results).map(|metadata| metadata.dev()) else { return 0 };
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    // It may have ended, or closed them.
    let files = open.filter_map(|open| fs::metadata(open.path()).ok());
    let deleted: BTreeMap<u64, u64> = files
        .filter(|file| file.is_file() && file.nlink() == 0 && file.dev() == disk)
        .map(|file| (file.ino(), file.len()))
        .collect();
    deleted.into_values().fold(0, u64::saturating_add)
}

/// A hard link to the file, or a copy where it lies on another file system.
pub(super) fn link(source: &Path, path: &Path) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::hard_link(source, path) {
        // Some kernels forbid hard links to files of other users.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::CrossesDevices | io::ErrorKind::PermissionDenied
            ) =>
        {
            fs::copy(source, path).map(drop)
        }
        linked => linked,
    }
}

/// The program's result at the path, as a tar.
pub(super) fn copy_out(dir: &Path, path: &str) -> BoxStream<'static, Result<Bytes, ExecutorError>> {
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let (tree, path) = (results(dir), path.to_owned());
    tokio::task::spawn_blocking(move || {
        let mut chunks = Chunks { sender, buffer: Vec::with_capacity(CHUNK_BYTES) };
        let outcome = write_tar(&tree, &path, &mut chunks)
            .and_then(|()| io::Write::flush(&mut chunks))
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => ExecutorError::NoSuchPath { path },
                _ if tree::is_unbounded(&error) => {
                    ExecutorError::Failed(Failure::task(format!("it {error}")))
                }
                _ => ExecutorError::Failed(Failure::refused(format!(
                    "cannot read the result at '{path}' on the node: {error}"
                ))),
            });
        if let Err(error) = outcome {
            // A reader that is gone does not need the error either.
            drop(chunks.sender.blocking_send(Err(error)));
        }
    });
    stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    })
    .boxed()
}

/// A link that the program created is archived as a link, never followed.
fn write_tar(tree: &Path, path: &str, to: &mut Chunks) -> io::Result<()> {
    let host = below(tree, path);
    let name = host.file_name().ok_or(io::ErrorKind::NotFound)?.to_owned();
    let metadata = fs::symlink_metadata(&host)?;
    if let Some(parent) = host.parent()
        && !fs::canonicalize(parent)?.starts_with(fs::canonicalize(tree)?)
    {
        return Err(io::Error::other("a link on the way to it leads out of the task's files"));
    }
    let mut tar = tar::Builder::new(to);
    if metadata.is_dir() {
        let mut header = header(metadata.mode(), 0, metadata.mtime());
        header.set_entry_type(EntryType::Directory);
        tar.append_data(&mut header, &name, io::empty())?;
        tree::walk(&host, |entry| append(&mut tar, &Path::new(&name).join(entry.path), entry))?;
    } else {
        tar.follow_symlinks(false);
        tar.append_path_with_name(&host, &name)?;
    }
    tar.finish()
}

fn append(
    tar: &mut tar::Builder<&mut Chunks>,
    path: &Path,
    entry: &tree::Entry<'_>,
) -> io::Result<()> {
    let mut header = header(entry.stat.st_mode, 0, entry.stat.st_mtime);
    match entry.kind() {
        FileType::Directory => {
            header.set_entry_type(EntryType::Directory);
            tar.append_data(&mut header, path, io::empty())
        }
        FileType::Symlink => {
            header.set_entry_type(EntryType::Symlink);
            let target = rustix::fs::readlinkat(entry.directory, entry.name, Vec::new())?;
            tar.append_link(&mut header, path, OsStr::from_bytes(target.to_bytes()))
        }
        FileType::RegularFile => {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(entry.directory, entry.name, flags, Mode::empty())?;
            header.set_size(entry.size_bytes());
            tar.append_data(&mut header, path, File::from(file).take(entry.size_bytes()))
        }
        // A program cannot create anything else.
        _ => Ok(()),
    }
}

fn header(mode: u32, size_bytes: u64, modified_at: i64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(mode & 0o7777);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(u64::try_from(modified_at).unwrap_or_default());
    header.set_size(size_bytes);
    header
}

/// Sends the chunks of a tar to a reader that may be slow.
struct Chunks {
    sender: mpsc::Sender<Result<Bytes, ExecutorError>>,
    buffer: Vec<u8>,
}

// === impl Chunks ===

impl io::Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.buffer, Vec::with_capacity(CHUNK_BYTES));
        self.sender.blocking_send(Ok(chunk.into())).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_file_without_a_name_counts_as_long_as_the_program_has_it_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = results(dir.path()).join("file");
        fs::create_dir_all(results(dir.path())).unwrap();
        let written = |pid| written_bytes(dir.path(), pid).unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let twice = file.try_clone().unwrap();
        let mut program = Command::new("sleep");
        let mut program = program.arg("600").stdin(file).stdout(twice).spawn().unwrap();
        let pid = Some(program.id());
        assert_eq!(written(pid), 1 << 20, "it has a name");
        fs::remove_file(&path).unwrap();
        assert_eq!((written(pid), written(None)), (1 << 20, 0));
        program.kill().unwrap();
        program.wait().unwrap();
        assert_eq!(written(pid), 0);
    }
}
