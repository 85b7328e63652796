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
use crate::data::archive::{self, ArchiveError, ChunkReader, Modes, SizeLimit, Unpacked};
use crate::data::omitted::{Omitted, shown};
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
        (
            _,
            Err(
                error @ (ArchiveError::TooManyEntries
                | ArchiveError::Escape { .. }
                | ArchiveError::Unusable { .. }
                | ArchiveError::TooDeep),
            ),
        ) => {
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
            let failure = disk::failure(&error);
            let message = format!("cannot collect {which}: {failure}");
            intake.spoil(Failure { message, ..failure });
            Ok(None)
        }
        (Err(error), _) => Err(error.into()),
        (Ok(()), Err(ArchiveError::Io(error))) => Err(error.into()),
        (Ok(()), Ok(Unpacked { bytes, omitted, .. })) => {
            intake.taken_bytes = intake.taken_bytes.saturating_add(bytes);
            let count = omitted.count();
            intake.omitted.add_below(&result.name, omitted);
            match count {
                0 => Ok(None),
                1 => note("has 1 entry that was left out; see RunOutput.omitted"),
                _ => {
                    note(&format!("has {count} entries that were left out; see RunOutput.omitted"))
                }
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
        let temporary = self.results.join(format!(".{}", self.name));
        let place = self.results.join(&self.name);
        remove_all(&temporary)?;
        remove_all(&place)?;
        let (chunks, limit) = (ChunkReader::new(chunks), SizeLimit::with_holes(self.limit_bytes));
        let outcome = archive::unpack(chunks, &temporary, limit, Modes::Kept, &self.disk).and_then(
            |mut unpacked| {
                move_into_place(&temporary, &place)?;
                unpacked.omitted.strip_first_directory();
                drop_links_that_leave(&place, &mut unpacked.omitted)?;
                Ok(unpacked)
            },
        );
        remove_all(&temporary)?;
        outcome
    }
}

/// The archive has one top-level entry: the last component of the path.
fn move_into_place(temporary: &Path, place: &Path) -> io::Result<()> {
    let tops: Vec<PathBuf> = std::fs::read_dir(temporary)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    match tops.as_slice() {
        [top] if std::fs::symlink_metadata(top)?.is_dir() => std::fs::rename(top, place),
        _ => std::fs::rename(temporary, place),
    }
}

/// Removes the symbolic links that may point out of `root`: their targets are not part of the
/// result, and would mean something else where the archive is unpacked.
fn drop_links_that_leave(root: &Path, omitted: &mut Omitted) -> io::Result<()> {
    tree::walk(root, |entry| {
        if entry.kind() != FileType::Symlink {
            return Ok(());
        }
        let target = rustix::fs::readlinkat(entry.directory, entry.name, Vec::new())?;
        let target = Path::new(OsStr::from_bytes(target.to_bytes()));
        let path = RelativePath::new(entry.path).map_err(io::Error::other)?;
        if path.is_led_out_by(target) {
            rustix::fs::unlinkat(entry.directory, entry.name, AtFlags::empty())?;
            omitted.add(entry.path, &format!("a link to '{}', outside of it", shown(target)));
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::any_disk;

    fn unpacked(tar: Vec<u8>, results: &Path) -> Result<Vec<String>, ArchiveError> {
        let (sender, receiver) = mpsc::channel(1);
        sender.try_send(Ok(tar.into())).unwrap();
        drop(sender);
        let (results, name) = (results.to_owned(), "out".to_owned());
        let unpacking = Unpacking { results, name, limit_bytes: 1 << 20, disk: any_disk() };
        unpacking.run(receiver).map(|unpacked| unpacked.omitted.into_list())
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
        let mut pipe = tar::Header::new_gnu();
        pipe.set_entry_type(tar::EntryType::Fifo);
        pipe.set_size(0);
        builder.append_data(&mut pipe, "out/pipes/p", std::io::empty()).unwrap();
        let root = tempfile::tempdir().unwrap();
        let mut omitted = unpacked(builder.into_inner().unwrap(), root.path()).unwrap();
        omitted.sort();
        assert_eq!(
            omitted,
            [
                "bend: a link to 'ro/here/../..', outside of it",
                "pipes/p: a named pipe",
                "ro/over: a link to '../../out/in', outside of it",
                "root: a link to '/out/in', outside of it",
                "up: a link to '../x', outside of it",
            ]
        );
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
