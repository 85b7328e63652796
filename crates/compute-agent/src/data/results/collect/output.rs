//! The output of a run: complete on disk, its beginning and its end in the report.

use std::io;

use agent_core::execution::Failure;
use api_types::execution::RunOutput;
use api_types::log::{LogStream, OutputTail};
use api_types::quantity::Bytes;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;

use super::ends::{Ends, tail_of};
use super::intake::{CollectError, Intake};
use crate::data::logs::kept;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{self, is_full};
use crate::runtime::{ExecutorError, OutputChunk};

/// Reads both streams to their end, and replaces the output of an earlier attempt. Output beyond
/// the task's limit is dropped; output that a full disk refuses is dropped entirely; the report
/// gets the first bytes in either case.
pub(super) async fn take_in(
    mut chunks: BoxStream<'_, Result<OutputChunk, ExecutorError>>,
    dir: &ExecutionDir,
    intake: &mut Intake<'_>,
) -> Result<(RunOutput, Option<OutputTail>), CollectError> {
    let mut whole = Some(kept::Writer::new(dir));
    let (mut stdout, mut stderr) = (Ends::default(), Ends::default());
    let mut printed_bytes: u64 = 0;
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error @ ExecutorError::OutputLost { .. }) if intake.accepts_loss => {
                intake.notes.push(format!("its output is incomplete: {error}"));
                break;
            }
            Err(error) => return Err(error.into()),
        };
        match chunk.stream {
            LogStream::Stdout => stdout.add(&chunk.bytes),
            LogStream::Stderr => stderr.add(&chunk.bytes),
        }
        let bytes = chunk.bytes.len() as u64;
        printed_bytes += bytes;
        if printed_bytes > intake.left_bytes() {
            continue;
        }
        let Some(writer) = &mut whole else { continue };
        let kept = match intake.disk.take(bytes) {
            Ok(()) => writer.add(&chunk).await,
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            give_up(&mut whole, dir, &error, intake)?;
        }
    }
    if let Some(writer) = whole.take()
        && let Err(error) = writer.finish().await
    {
        give_up(&mut whole, dir, &error, intake)?;
    }
    if printed_bytes > intake.left_bytes() {
        let size = Bytes(printed_bytes).to_string();
        intake.spoil(intake.limit.beyond("what it printed (stdout and stderr)", &size));
    }
    intake.taken_bytes += printed_bytes.min(intake.left_bytes());
    let tail = tail_of(&stdout, &stderr);
    let ((stdout, stdout_truncated), stdout_tail) = (stdout.head(), stdout.record_tail());
    let ((stderr, stderr_truncated), stderr_tail) = (stderr.head(), stderr.record_tail());
    let output = RunOutput {
        stdout,
        stdout_truncated,
        stdout_tail: stdout_tail.text,
        stdout_bytes: stdout_tail.of_bytes,
        stderr,
        stderr_truncated,
        stderr_tail: stderr_tail.text,
        stderr_bytes: stderr_tail.of_bytes,
        ..RunOutput::default()
    };
    Ok((output, tail))
}

/// Frees the space taken on a full disk; any other error is returned.
fn give_up(
    whole: &mut Option<kept::Writer<'_>>,
    dir: &ExecutionDir,
    error: &io::Error,
    intake: &mut Intake<'_>,
) -> Result<(), CollectError> {
    *whole = None;
    if !is_full(error) {
        return Err(io::Error::new(error.kind(), error.to_string()).into());
    }
    dir.remove_output()?;
    let failure = disk::failure(error);
    let message = format!("cannot store its output: {}", failure.message);
    intake.spoil(Failure { message, ..failure });
    Ok(())
}

#[cfg(test)]
mod tests {
    use api_types::Timestamp;
    use bytes::Bytes as Piece;
    use futures_util::stream;

    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::host::disk::{Disk, OutputLimit};
    use crate::testing::{self, any_disk};

    #[tokio::test]
    async fn both_streams_are_whole_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let chunk = |stream, text: &'static str| {
            let (time, bytes) = (Timestamp(1), Piece::from_static(text.as_bytes()));
            Ok(OutputChunk { stream, time, bytes })
        };
        // A second attempt replaces the output of the first one.
        for _ in 0..2 {
            let chunks = stream::iter([
                chunk(LogStream::Stdout, "one "),
                chunk(LogStream::Stderr, "error"),
                chunk(LogStream::Stdout, "two"),
            ]);
            let disk = any_disk();
            let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 11 + 5));
            let (output, _) = take_in(chunks.boxed(), &dir, &mut intake).await.unwrap();
            assert_eq!(intake.spoilt, None);
            assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one two", "error"));
            assert_eq!(std::fs::read_to_string(dir.stdout()).unwrap(), "one two");
            assert_eq!(std::fs::read_to_string(dir.stderr()).unwrap(), "error");
        }
    }

    #[tokio::test]
    async fn damaged_output_is_taken_as_far_as_it_goes_if_nothing_else_helped() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let disk = any_disk();
        let damaged = || {
            let lost = ExecutorError::OutputLost { reason: "docker says: EOF".to_owned() };
            printing(1).chain(stream::iter([Err(lost)])).boxed()
        };
        let intake = || Intake::new(&disk, OutputLimit::new(0, 0, 1000));
        let refused = take_in(damaged(), &dir, &mut intake()).await;
        assert!(matches!(refused, Err(CollectError::Executor(ExecutorError::OutputLost { .. }))));
        let mut intake = intake().accepting_loss(true);
        let (output, _) = take_in(damaged(), &dir, &mut intake).await.unwrap();
        assert_eq!((output.stdout.as_str(), &intake.spoilt), ("0123456789", &None));
        let note = "its output is incomplete: cannot read the output of this execution: docker \
                    says: EOF";
        assert_eq!(intake.notes, [note]);
    }

    fn printing(pieces: usize) -> BoxStream<'static, Result<OutputChunk, ExecutorError>> {
        let chunk = || OutputChunk {
            stream: LogStream::Stdout,
            time: Timestamp(1),
            bytes: Piece::from_static(b"0123456789"),
        };
        stream::iter((0..pieces).map(move |_| Ok(chunk()))).boxed()
    }

    #[tokio::test]
    async fn output_beyond_the_limit_is_dropped_and_reported() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let disk = any_disk();
        let mut intake = Intake::new(&disk, OutputLimit::new(25, 0, 0));
        let (output, _) = take_in(printing(4), &dir, &mut intake).await.unwrap();
        assert_eq!(output.stdout.len(), 40);
        assert_eq!(std::fs::read(dir.stdout()).unwrap().len(), 20);
        let message = intake.spoilt.clone().unwrap();
        let words = "what it printed (stdout and stderr) has 40 B, more than the 25 B of the \
                     task's Resources.Disk; ask for more";
        assert_eq!(message, Failure::task(words));
    }

    #[tokio::test]
    async fn a_full_disk_keeps_only_the_first_bytes_of_the_output() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        std::fs::create_dir_all(dir.stdout().parent().unwrap()).unwrap();
        std::fs::write(dir.stdout(), "of an earlier try").unwrap();
        let disk = Disk::with_free_bytes(5);
        let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 1000));
        let (output, _) = take_in(printing(4), &dir, &mut intake).await.unwrap();
        assert_eq!(output.stdout.len(), 40);
        assert!(!dir.stdout().exists() && intake.is_the_disk_full());
        let message = intake.spoilt.unwrap().message;
        let words = "cannot store its output: no space left on the node's disk (5 B are free";
        assert!(message.starts_with(words), "{message}");
    }
}
