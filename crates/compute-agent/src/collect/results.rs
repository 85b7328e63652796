//! Result paths: what the task wrote there, as a directory per Name.

use std::io;
use std::path::{Path, PathBuf};

use api_types::ExecutionId;
use api_types::source::ResultPath;
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::CollectError;
use crate::archive::{self, ArchiveError, ChunkReader};
use crate::data_dir::{ExecutionDir, remove_all};
use crate::executor::{Executor, ExecutorError};

/// What one result path may hold; of one that holds more nothing is kept, and the user is told.
/// Without a bound one task could fill the node's disk.
const MAX_RESULT_BYTES: u64 = 4 << 30;

/// Chunks on their way from the engine to the disk.
const CHUNKS_AHEAD: usize = 16;

/// Copies the path to `results/<Name>`: the contents of a directory, or the one file. Answers
/// with what the user should know, when not all went as asked.
pub(super) async fn take_in(
    executor: &dyn Executor,
    id: ExecutionId,
    result: &ResultPath,
    dir: &ExecutionDir,
) -> Result<Option<String>, CollectError> {
    let note =
        |text: &str| Ok(Some(format!("result path '{}' ({}) {text}", result.name, result.path)));
    let (sender, receiver) = mpsc::channel(CHUNKS_AHEAD);
    let (results, name) = (dir.results(), result.name.clone());
    let unpacking = tokio::task::spawn_blocking(move || unpack(receiver, &results, &name));
    let copied = copy(executor, id, &result.path, sender).await;
    let unpacked = unpacking.await.unwrap_or_else(|error| Err(io::Error::other(error).into()));
    match (copied, unpacked) {
        (Err(ExecutorError::NoSuchPath { .. }), _) => note("does not exist"),
        (_, Err(ArchiveError::TooLarge { limit_bytes })) => {
            note(&format!("holds more than {limit_bytes} bytes and was not kept"))
        }
        (_, Err(error @ ArchiveError::TooManyEntries)) => note(&format!("was not kept: {error}")),
        (_, Err(error @ ArchiveError::Escape { .. })) => note(&format!("was not kept: {error}")),
        (Err(error), _) => Err(error.into()),
        (Ok(()), Err(ArchiveError::Io(error))) => Err(error.into()),
        (Ok(()), Ok(())) => Ok(None),
    }
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
                // Nobody reads on when the archive was refused; that error is told instead.
                if sender.send(Ok(chunk)).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => {
                // A stream that broke off must not pass for one that ended.
                let broken = io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string());
                // The reader may be gone already, which is just as well.
                drop(sender.send(Err(broken)).await);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Unpacks beside, then moves into place: what has the result's name is whole.
fn unpack(
    chunks: mpsc::Receiver<io::Result<bytes::Bytes>>,
    results: &Path,
    name: &str,
) -> Result<(), ArchiveError> {
    let beside = results.join(format!(".{name}"));
    let place = results.join(name);
    remove_all(&beside)?;
    remove_all(&place)?;
    let outcome = archive::unpack(ChunkReader::new(chunks), &beside, MAX_RESULT_BYTES)
        .and_then(|_| Ok(move_into_place(&beside, &place)?));
    remove_all(&beside)?;
    outcome
}

/// The archive has one entry at its top: the last component of the path.
fn move_into_place(beside: &Path, place: &Path) -> io::Result<()> {
    let tops: Vec<PathBuf> = std::fs::read_dir(beside)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    match tops.as_slice() {
        [top] if std::fs::symlink_metadata(top)?.is_dir() => std::fs::rename(top, place),
        _ => std::fs::rename(beside, place),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpacked(tar: Vec<u8>, results: &Path) -> Result<(), ArchiveError> {
        let (sender, receiver) = mpsc::channel(1);
        sender.try_send(Ok(tar.into())).unwrap();
        drop(sender);
        unpack(receiver, results, "out")
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
    fn a_file_lies_in_the_directory_of_the_name() {
        let root = tempfile::tempdir().unwrap();
        unpacked(tar_of("answer.txt"), root.path()).unwrap();
        assert_eq!(std::fs::read_to_string(root.path().join("out/answer.txt")).unwrap(), "hi");
    }

    #[test]
    fn a_stream_that_breaks_off_leaves_nothing() {
        let root = tempfile::tempdir().unwrap();
        let mut tar = tar_of("outputs/a");
        tar.truncate(513);
        unpacked(tar, root.path()).unwrap_err();
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
