//! Collects result paths: what the task wrote there, as a directory per Name.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::protocol::FailureCause;
use api_types::quantity::Bytes;
use api_types::source::ResultPath;
use futures_util::StreamExt;
use rustix::fs::{AtFlags, FileType};
use tokio::sync::mpsc;
use unpack::RelativePath;

use super::intake::{CollectError, Intake};
use crate::data::archive::{self, ArchiveError, ChunkReader, Modes};
use crate::data::results::publisher::publication::Publication;
use crate::host::disk::{self, Disk, is_full};
use crate::host::tree::{self, remove_all};
use crate::runtime::{Executor, ExecutorError};

/// Chunks buffered between the engine and the disk.
const CHUNKS_AHEAD: usize = 16;

/// Copies the path to `results/<Name>`: the contents of a directory, or the one file. Returns a
/// note for the user when the result is incomplete.
pub(super) async fn take_in(
    executor: &dyn Executor,
    run: &Publication<'_>,
    result: &ResultPath,
    intake: &mut Intake<'_>,
) -> Result<Option<String>, CollectError> {
    let which = format!("result path '{}' ({})", result.name, result.path);
    let note = |text: &str| Ok(Some(format!("{which} {text}")));
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let unpacking = Unpacking {
        results: run.dir.results(),
        name: result.name.clone(),
        limit_bytes: intake.left_bytes(),
        disk: intake.disk.clone(),
    };
    let unpacking = tokio::task::spawn_blocking(move || unpacking.run(receiver));
    let copied = copy(executor, run.id, &result.path, sender).await;
    let unpacked = unpacking.await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    match (copied, unpacked) {
        (Err(ExecutorError::NoSuchPath { .. }), _) => note("does not exist"),
        (_, Err(ArchiveError::TooLarge { least_bytes, .. })) => {
            let written_bytes = intake.taken_bytes.saturating_add(least_bytes);
            let size = match intake.taken_bytes {
                0 => format!("at least {}", Bytes(least_bytes)),
                _ => format!("at least {} together with earlier results", Bytes(written_bytes)),
            };
            intake.spoil(intake.limit.beyond(&which, &size));
            Ok(None)
        }
        (_, Err(error @ ArchiveError::TooManyEntries)) => {
            note(&format!("was not collected: {error}"))
        }
        (_, Err(error @ ArchiveError::Escape { .. })) => {
            note(&format!("was not collected: {error}"))
        }
        (_, Err(error @ (ArchiveError::TooDeep | ArchiveError::Sparse { .. }))) => {
            intake.spoil(Failure::task(format!("cannot collect {which}: {error}")));
            Ok(None)
        }
        (Err(ExecutorError::Failed(failure)), _) if failure.cause == FailureCause::Task => {
            let message = format!("cannot collect {which}: {}", failure.message);
            intake.spoil(Failure { message, ..failure });
            Ok(None)
        }
        (_, Err(ArchiveError::Io(error))) if is_full(&error) => {
            remove_all(&run.dir.results())?;
            let Failure { cause, message } = disk::failure(&error);
            let message = format!("cannot collect {which}: {message}");
            intake.spoil(Failure { cause, message });
            Ok(None)
        }
        (Err(error), _) => Err(error.into()),
        (Ok(()), Err(ArchiveError::Io(error))) => Err(error.into()),
        (Ok(()), Ok(Unpacked { bytes, links_dropped })) => {
            intake.taken_bytes = intake.taken_bytes.saturating_add(bytes);
            match links_dropped {
                0 => Ok(None),
                dropped => note(&format!(
                    "has {dropped} links that lead out of it; they were not collected"
                )),
            }
        }
    }
}

/// One path that is being collected.
struct Unpacking {
    results: PathBuf,
    name: String,
    limit_bytes: u64,
    disk: Disk,
}

struct Unpacked {
    bytes: u64,
    links_dropped: u64,
}

async fn copy(
    executor: &dyn Executor,
    id: ExecutionId,
    path: &str,
    sender: mpsc::Sender<io::Result<bytes::Bytes>>,
) -> Result<(), ExecutorError> {
    let mut chunks = executor.copy_out(id, path);
    while let Some(chunk) = chunks.next().await {
        match chunk {
            Ok(chunk) => {
                // The reader stops when it refuses the archive; its error is the one to report.
                if sender.send(Ok(chunk)).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                // A broken stream must not pass for a complete one.
                let broken = io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string());
                // The reader may be gone already, which is fine.
                drop(sender.send(Err(broken)).await);
                return Err(error);
            }
        }
    }
    Ok(())
}

// === impl Unpacking ===

impl Unpacking {
    /// Unpacks to a temporary directory and then renames it: the result's name is always complete.
    fn run(
        &self,
        chunks: mpsc::Receiver<io::Result<bytes::Bytes>>,
    ) -> Result<Unpacked, ArchiveError> {
        let beside = self.results.join(format!(".{}", self.name));
        let place = self.results.join(&self.name);
        remove_all(&beside)?;
        remove_all(&place)?;
        let (chunks, limit_bytes) = (ChunkReader::new(chunks), self.limit_bytes);
        let outcome = archive::unpack(chunks, &beside, limit_bytes, Modes::Kept, &self.disk)
            .and_then(|bytes| Ok(move_into_place(&beside, &place).map(|()| bytes)?))
            .and_then(|bytes| {
                let links_dropped = drop_links_that_leave(&place)?;
                Ok(Unpacked { bytes, links_dropped })
            });
        remove_all(&beside)?;
        outcome
    }
}

/// The archive has one top-level entry: the last component of the path.
fn move_into_place(beside: &Path, place: &Path) -> io::Result<()> {
    let tops: Vec<PathBuf> = std::fs::read_dir(beside)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    match tops.as_slice() {
        [top] if std::fs::symlink_metadata(top)?.is_dir() => std::fs::rename(top, place),
        _ => std::fs::rename(beside, place),
    }
}

/// Removes the symbolic links that may point out of `root`: their targets are not part of the
/// result, and would mean something else where the archive is unpacked.
fn drop_links_that_leave(root: &Path) -> io::Result<u64> {
    let mut dropped = 0;
    tree::walk(root, |entry| {
        if entry.kind() != FileType::Symlink {
            return Ok(());
        }
        let target = rustix::fs::readlinkat(entry.directory, entry.name, Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        let path = RelativePath::new(entry.path).map_err(io::Error::other)?;
        if path.is_led_out_by(target) {
            rustix::fs::unlinkat(entry.directory, entry.name, AtFlags::empty())?;
            dropped += 1;
        }
        Ok(())
    })?;
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_disk;

    fn unpacked(tar: Vec<u8>, results: &Path) -> Result<u64, ArchiveError> {
        let (sender, receiver) = mpsc::channel(1);
        sender.try_send(Ok(tar.into())).unwrap();
        drop(sender);
        let (results, name) = (results.to_owned(), "out".to_owned());
        let unpacking = Unpacking { results, name, limit_bytes: 1 << 20, disk: any_disk() };
        unpacking.run(receiver).map(|unpacked| unpacked.links_dropped)
    }

    fn tar_of(path: &str) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, &b"hi"[..]).unwrap();
        builder.into_inner().unwrap()
    }

    #[test]
    fn a_directory_becomes_the_directory_of_the_name() {
        let root = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            unpacked(tar_of("outputs/sub/a"), root.path()).unwrap();
            let text = std::fs::read_to_string(root.path().join("out/sub/a")).unwrap();
            assert_eq!(text, "hi");
        }
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1);
    }

    #[test]
    fn modes_and_links_that_stay_inside_are_kept() {
        let mut builder = tar::Builder::new(Vec::new());
        for (path, mode) in [("out/", 0o700), ("out/ro/", 0o555), ("out/ro/run", 0o4510)] {
            let mut header = tar::Header::new_gnu();
            let directory = path.ends_with('/');
            header.set_entry_type(match directory {
                true => tar::EntryType::Directory,
                false => tar::EntryType::Regular,
            });
            header.set_mode(mode);
            header.set_size(0);
            builder.append_data(&mut header, path, std::io::empty()).unwrap();
        }
        for (path, target) in [
            ("out/in", "ro/run"),
            ("out/ro/in", "../in"),
            // With a link `ro/here` to `.` this leads to the parent of the directory.
            ("out/bend", "ro/here/../.."),
            ("out/ro/here", "."),
            ("out/up", "../x"),
            ("out/ro/over", "../../out/in"),
            ("out/root", "/out/in"),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, path, target).unwrap();
        }
        let root = tempfile::tempdir().unwrap();
        assert_eq!(unpacked(builder.into_inner().unwrap(), root.path()).unwrap(), 4);
        let mode = |path: &str| {
            let metadata = std::fs::metadata(root.path().join("out").join(path)).unwrap();
            std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o7777
        };
        assert_eq!((mode(""), mode("ro/run")), (0o700, 0o510));
        // The owner may write, so that the node can remove it later.
        assert_eq!(mode("ro"), 0o755);
        let mut names: Vec<_> = ["", "ro"]
            .iter()
            .flat_map(|folder| std::fs::read_dir(root.path().join("out").join(folder)).unwrap())
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["here", "in", "in", "ro", "run"]);
    }

    #[test]
    fn a_file_lies_in_the_directory_of_the_name() {
        let root = tempfile::tempdir().unwrap();
        unpacked(tar_of("answer.txt"), root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("out/answer.txt")).unwrap(), "hi");
    }

    #[test]
    fn a_broken_stream_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut tar = tar_of("outputs/a");
        tar.truncate(513);
        unpacked(tar, root.path()).unwrap_err();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
