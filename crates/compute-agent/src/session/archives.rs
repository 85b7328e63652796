//! Answers requests for published archives, or single files of them.
//!
//! A thread reads the archive as fast as the reader takes it. A file is found by unpacking what comes
//! before it, without keeping any of it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use api_types::ExecutionId;
use api_types::log::{ArchiveHead, ArchiveRequest, LogFrame};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use futures_util::stream::{self, BoxStream, StreamExt};
use tar::Archive;
use tokio::sync::mpsc;
use tracing::warn;

use crate::data::results::publisher::PublishedDir;

/// Bytes of one frame: with Base64 a third more.
const FRAME_BYTES: usize = 48 << 10;

/// Frames between the thread and the connection.
const FRAMES_AHEAD: usize = 2;

/// Why nothing more is sent.
enum Ended {
    /// The node has no such archive, or the archive no such file.
    Absent,
    /// The reader has disconnected.
    Unread,
    Unreadable(io::Error),
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            _ => Self::Unreadable(error),
        }
    }
}

/// The frames of the answer.
pub(super) fn frames(
    published: &PublishedDir,
    execution: ExecutionId,
    request: ArchiveRequest,
) -> BoxStream<'static, LogFrame> {
    let archive = published.archive_path(execution);
    let (sender, receiver) = mpsc::channel(FRAMES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let last = match read(&archive, &request, &sender) {
            Ok(()) => LogFrame::End,
            Err(Ended::Absent) => LogFrame::Absent,
            Err(Ended::Unread) => return,
            Err(Ended::Unreadable(error)) => {
                warn!(%execution, %error, "cannot read a published archive");
                LogFrame::Failed { message: "its node cannot read the archive".to_owned() }
            }
        };
        // Fails only if the reader has disconnected.
        drop(sender.blocking_send(last));
    });
    stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|frame| (frame, receiver))
    })
    .boxed()
}

fn read(
    archive: &Path,
    request: &ArchiveRequest,
    frames: &mpsc::Sender<LogFrame>,
) -> Result<(), Ended> {
    let mut file = File::open(archive)?;
    let metadata = file.metadata()?;
    let tag = format!("{:x}-{:x}", metadata.len(), metadata.mtime_nsec());
    let Some(path) = &request.path else {
        let head = head(request, metadata.len(), tag);
        file.seek(SeekFrom::Start(head.start))?;
        return send(file, head, frames);
    };
    let path = plain(Path::new(path)).ok_or(Ended::Absent)?;
    let mut archive = Archive::new(GzDecoder::new(file));
    for entry in archive.entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() || plain(&entry.path()?) != Some(path.clone()) {
            continue;
        }
        let head = head(request, entry.size(), tag);
        io::copy(&mut entry.by_ref().take(head.start), &mut io::sink())?;
        return send(entry, head, frames);
    }
    Err(Ended::Absent)
}

/// The path without `.` parts; none if it leads elsewhere.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => plain.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(plain)
}

/// The requested range of an archive of this size; all of it if the request names another version.
fn head(request: &ArchiveRequest, size: u64, tag: String) -> ArchiveHead {
    let is_current = request.tag.as_ref().is_none_or(|known| *known == tag);
    let (start, end) = match is_current && request.start < size {
        true => (request.start, request.end.map_or(size, |last| size.min(last.saturating_add(1)))),
        false => (0, size),
    };
    ArchiveHead { size, start, length: end.saturating_sub(start), tag }
}

fn send(from: impl Read, head: ArchiveHead, frames: &mpsc::Sender<LogFrame>) -> Result<(), Ended> {
    let send = |frame| frames.blocking_send(frame).map_err(|_| Ended::Unread);
    // Limited to the announced length, which must hold.
    let mut from = from.take(head.length);
    let mut left = head.length;
    send(LogFrame::Archive(head))?;
    let mut buffer = vec![0; FRAME_BYTES];
    while left > 0 {
        let length = from.read(&mut buffer)?;
        if length == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        left -= length as u64;
        send(LogFrame::Content { base64: STANDARD.encode(&buffer[..length]) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use uuid::Uuid;

    use super::*;

    const EXECUTION: ExecutionId = ExecutionId::from_uuid(Uuid::from_u128(7));

    fn published(directory: &Path) -> (PublishedDir, Vec<u8>, String) {
        let table = "0123456789".repeat(20_000);
        let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        for (path, text) in [("stdout", "hello\n"), ("outputs/table.csv", &table), ("empty", "")] {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        let archive = builder.into_inner().unwrap().finish().unwrap();
        let published = PublishedDir::new(directory.to_owned(), u64::MAX);
        std::fs::write(published.archive_path(EXECUTION), &archive).unwrap();
        (published, archive, table)
    }

    /// What was announced, and the bytes that came; none without an archive.
    async fn fetched(
        published: &PublishedDir,
        request: ArchiveRequest,
    ) -> Option<(ArchiveHead, Vec<u8>)> {
        let mut frames = frames(published, EXECUTION, request);
        let head = match frames.next().await.unwrap() {
            LogFrame::Archive(head) => head,
            LogFrame::Absent => return None,
            other => panic!("{other:?}"),
        };
        let mut bytes = Vec::new();
        loop {
            match frames.next().await.unwrap() {
                LogFrame::Content { base64 } => bytes.extend(STANDARD.decode(base64).unwrap()),
                LogFrame::End => break,
                other => panic!("{other:?}"),
            }
        }
        assert!(frames.next().await.is_none());
        assert_eq!(bytes.len() as u64, head.length);
        Some((head, bytes))
    }

    fn file(path: &str) -> ArchiveRequest {
        ArchiveRequest { path: Some(path.to_owned()), ..ArchiveRequest::default() }
    }

    #[tokio::test]
    async fn an_archive_and_its_files_are_sent_whole_and_in_part() {
        let directory = tempfile::tempdir().unwrap();
        let (published, archive, table) = published(directory.path());
        let (head, bytes) = fetched(&published, ArchiveRequest::default()).await.unwrap();
        assert_eq!((head.start, head.size, &bytes), (0, archive.len() as u64, &archive));
        let part = ArchiveRequest { start: 100, end: Some(299), ..ArchiveRequest::default() };
        let (head, bytes) = fetched(&published, part.clone()).await.unwrap();
        assert_eq!((head.start, head.length, &bytes[..]), (100, 200, &archive[100..300]));
        let tag = Some(head.tag);
        let same = ArchiveRequest { tag, ..part.clone() };
        assert_eq!(fetched(&published, same).await.unwrap().1, bytes);
        let other = ArchiveRequest { tag: Some("other".to_owned()), ..part };
        assert_eq!(fetched(&published, other).await.unwrap().1, archive);
        let beyond = ArchiveRequest { start: u64::MAX, ..ArchiveRequest::default() };
        assert_eq!(fetched(&published, beyond).await.unwrap().1, archive);

        for path in ["outputs/table.csv", "./outputs/table.csv"] {
            let (head, bytes) = fetched(&published, file(path)).await.unwrap();
            assert_eq!((head.size, &bytes[..]), (table.len() as u64, table.as_bytes()), "{path}");
        }
        let tail = ArchiveRequest { start: 199_995, ..file("outputs/table.csv") };
        assert_eq!(fetched(&published, tail).await.unwrap().1, b"56789");
        assert_eq!(fetched(&published, file("empty")).await.unwrap().1, b"");
    }

    #[tokio::test]
    async fn what_is_not_there_is_absent() {
        let directory = tempfile::tempdir().unwrap();
        let (published, ..) = published(directory.path());
        for path in ["nothing", "outputs", "../stdout", "/stdout", ""] {
            assert!(fetched(&published, file(path)).await.is_none(), "{path}");
        }
        std::fs::remove_file(published.archive_path(EXECUTION)).unwrap();
        assert!(fetched(&published, ArchiveRequest::default()).await.is_none());
    }
}
