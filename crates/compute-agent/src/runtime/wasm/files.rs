//! The node's files that a program sees: its inputs, and directories for its results.
//!
//! WASI shows a program only directories, each under a name. An input that is a directory is shown
//! where it lies; one that is a file is linked into a directory tree below `inputs/` that mirrors
//! the program's view. Result paths lie below `results/`, laid out the same.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use agent_core::execution::Failure;
use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use tokio::sync::mpsc;
use wasm_run::plan::Preopen;

use crate::data::inputs::placement::MountedInput;
use crate::host::data_dir::size_of;
use crate::runtime::{ExecutorError, Run, result_paths};

/// Bytes per read of a result.
const CHUNK_BYTES: usize = 64 << 10;

/// Chunks buffered between the disk and the reader of the result.
const CHUNKS_AHEAD: usize = 16;

/// Creates the files that the program will see, replacing earlier ones.
pub(super) fn lay_out(dir: &Path, run: &Run) -> Result<Vec<Preopen>, Failure> {
    let on_disk = |error| Failure::node(format!("cannot lay out the program's files: {error}"));
    let mut shown: BTreeMap<String, Preopen> = BTreeMap::new();
    let mut show = |guest: &str, host: PathBuf, writable: bool| match shown.get(guest) {
        Some(other) if other.host != host => Err(Failure::task(format!(
            "two inputs, or an input and a result path, meet in '{guest}', and the wasm engine \
             can show only one of them there; give each a directory of its own"
        ))),
        Some(_) => Ok(()),
        None => {
            shown.insert(guest.to_owned(), Preopen { host, guest: guest.to_owned(), writable });
            Ok(())
        }
    };
    for MountedInput { source, target, writable } in &run.inputs {
        let target = target.trim_end_matches('/');
        if fs::metadata(source).map_err(on_disk)?.is_dir() {
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
        link(source, &below(&tree, target)).map_err(on_disk)?;
        show(parent, below(&tree, parent), false)?;
    }
    for guest in result_paths::directories(&run.work) {
        let host = below(&results(dir), &guest);
        fs::create_dir_all(&host).map_err(on_disk)?;
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

/// Bytes that the program wrote and printed so far.
pub(super) fn written_bytes(dir: &Path) -> io::Result<u64> {
    Ok(size_of(&results(dir))?.saturating_add(size_of(&dir.join("output"))?))
}

/// A hard link to the file, or a copy where it lies on another file system.
pub(super) fn link(source: &Path, place: &Path) -> io::Result<()> {
    if let Some(parent) = place.parent() {
        fs::create_dir_all(parent)?;
    }
    match fs::hard_link(source, place) {
        // Some kernels forbid hard links to files of other users.
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::CrossesDevices | io::ErrorKind::PermissionDenied
            ) =>
        {
            fs::copy(source, place).map(drop)
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
                _ => ExecutorError::Failed(Failure::node(format!(
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
    tar.follow_symlinks(false);
    if metadata.is_dir() {
        tar.append_dir_all(&name, &host)?;
    } else {
        tar.append_path_with_name(&host, &name)?;
    }
    tar.finish()
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
