//! The output of a run: complete on disk, its beginning and its end in the report.

use std::io;

use agent_core::execution::Failure;
use api_types::ExecutionId;
use api_types::execution::RunOutput;
use api_types::log::{LogPosition, LogStream, OutputTail};
use futures_util::StreamExt;

use super::ends::{Ends, tail_of};
use super::intake::{CollectError, Intake};
use crate::data::logs::copies::Printed;
use crate::data::logs::kept::{Stored, Writer};
use crate::data::logs::rest::Rest;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{self, is_full};
use crate::runtime::{Executor, ExecutorError, OutputKeeping, OutputRange};

/// Reads both streams to their end, after what is stored of them already. Output beyond the task's
/// limit is dropped; output that a full disk refuses is dropped entirely; the report gets the first
/// bytes in either case.
pub(super) async fn take_in(
    executor: &dyn Executor,
    id: ExecutionId,
    dir: &ExecutionDir,
    intake: &mut Intake<'_>,
) -> Result<(RunOutput, Option<OutputTail>), CollectError> {
    let writer = Writer::open(dir, intake.disk).await?;
    let stored = writer.stored();
    let mut ends = stored_ends(dir, stored).await?;
    let (has_stable_times, piece_bytes) = match executor.output_keeping() {
        OutputKeeping::WithEngine { piece_bytes } => (true, piece_bytes),
        OutputKeeping::OnThisNode => (false, 0),
    };
    intake.notes.extend(intake.copies.note(id).map(str::to_owned));
    let mut whole = Some(writer);
    let mut printed = Printed::with(&stored, piece_bytes);
    let mut rest = Rest::after(&stored, has_stable_times);
    let mut chunks = executor.logs(id, OutputRange { follow: false, since: rest.since() });
    while let Some(chunk) = chunks.next().await {
        let chunk = match chunk {
            Ok(chunk) => chunk,
            Err(error @ ExecutorError::OutputLost { .. }) if intake.accepts_loss => {
                intake.notes.push(format!("its output is incomplete: {error}"));
                break;
            }
            // What was copied until then is kept.
            Err(error @ ExecutorError::Gone) => {
                intake.is_gone = true;
                intake.spoil(error.into());
                break;
            }
            Err(error) => return Err(error.into()),
        };
        let (Some(chunk), _) = rest.pass(chunk) else { continue };
        ends[usize::from(chunk.stream == LogStream::Stderr)].add(&chunk.bytes);
        printed = printed.and(&chunk.bytes);
        if !printed.fits(&intake.limit) {
            continue;
        }
        let Some(writer) = &mut whole else { continue };
        let kept = match writer.gather(&chunk) {
            Ok(true) => writer.write().await,
            Ok(false) => Ok(()),
            Err(error) => Err(error),
        };
        if let Err(error) = kept {
            give_up(&mut whole, dir, &error, intake)?;
        }
    }
    if let Some(writer) = &mut whole
        && let Err(error) = writer.write().await
    {
        give_up(&mut whole, dir, &error, intake)?;
    }
    if let Some(failure) = printed.beyond(&intake.limit) {
        intake.spoil(failure);
    }
    intake.taken_bytes += printed.bytes.min(intake.left_bytes());
    let [stdout, stderr] = ends;
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

/// The beginning and the end of each stream, as far as it is stored.
async fn stored_ends(dir: &ExecutionDir, stored: Stored) -> io::Result<[Ends; 2]> {
    if stored.records == 0 {
        return Ok([Ends::default(), Ends::default()]);
    }
    let dir = dir.clone();
    let reading = move || {
        let LogPosition { stdout, stderr } = stored.position;
        Ok([Ends::of_file(&dir.stdout(), stdout)?, Ends::of_file(&dir.stderr(), stderr)?])
    };
    tokio::task::spawn_blocking(reading).await.map_err(io::Error::other)?
}

/// Frees the space taken on a full disk; any other error is returned.
fn give_up(
    whole: &mut Option<Writer>,
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
    use futures_util::stream::{self, BoxStream};

    use super::*;
    use crate::data::logs::copies::Copies;
    use crate::host::data_dir::DataDir;
    use crate::host::disk::{Disk, OutputLimit};
    use crate::runtime::OutputChunk;
    use crate::testing::{self, OutputAlone, any_disk};

    const ID: u128 = 1;

    async fn take(
        printing: impl Fn() -> BoxStream<'static, Result<OutputChunk, ExecutorError>>
        + Send
        + Sync
        + 'static,
        dir: &ExecutionDir,
        intake: &mut Intake<'_>,
    ) -> Result<(RunOutput, Option<OutputTail>), CollectError> {
        let executor = OutputAlone::new(OutputKeeping::OnThisNode, move |_| printing());
        take_in(&executor, testing::execution_id(ID), dir, intake).await
    }

    #[tokio::test]
    async fn both_streams_are_whole_on_disk() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path())
            .unwrap()
            .executions()
            .for_execution(testing::execution_id(1));
        let chunk = |stream, text: &'static str| {
            let (time, bytes) = (Timestamp(1), Piece::from_static(text.as_bytes()));
            Ok(OutputChunk { stream, time, bytes })
        };
        // A second attempt continues after the output of the first one.
        for _ in 0..2 {
            let chunks = move || {
                stream::iter([
                    chunk(LogStream::Stdout, "one "),
                    chunk(LogStream::Stderr, "error"),
                    chunk(LogStream::Stdout, "two"),
                ])
                .boxed()
            };
            let (disk, copies) = (any_disk(), Copies::default());
            let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 11 + 5), &copies);
            let (output, _) = take(chunks, &dir, &mut intake).await.unwrap();
            assert_eq!(intake.spoilt, None);
            assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("one two", "error"));
            assert_eq!(std::fs::read_to_string(dir.stdout()).unwrap(), "one two");
            assert_eq!(std::fs::read_to_string(dir.stderr()).unwrap(), "error");
        }
    }

    #[tokio::test]
    async fn damaged_output_is_taken_as_far_as_it_goes_if_nothing_else_helped() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path())
            .unwrap()
            .executions()
            .for_execution(testing::execution_id(1));
        let (disk, copies) = (any_disk(), Copies::default());
        let damaged = || {
            let lost = ExecutorError::OutputLost { reason: "docker says: EOF".to_owned() };
            printing(1).chain(stream::iter([Err(lost)])).boxed()
        };
        let intake = || Intake::new(&disk, OutputLimit::new(0, 0, 1000), &copies);
        let refused = take(damaged, &dir, &mut intake()).await;
        assert!(matches!(refused, Err(CollectError::Executor(ExecutorError::OutputLost { .. }))));
        let mut intake = intake().accepting_loss(true);
        let (output, _) = take(damaged, &dir, &mut intake).await.unwrap();
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
        let dir = DataDir::open(root.path())
            .unwrap()
            .executions()
            .for_execution(testing::execution_id(1));
        let (disk, copies) = (any_disk(), Copies::default());
        let mut intake = Intake::new(&disk, OutputLimit::new(25, 0, 0), &copies);
        let (output, _) = take(|| printing(4), &dir, &mut intake).await.unwrap();
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
        let dir = DataDir::open(root.path())
            .unwrap()
            .executions()
            .for_execution(testing::execution_id(1));
        std::fs::create_dir_all(dir.stdout().parent().unwrap()).unwrap();
        std::fs::write(dir.stdout(), "of an earlier try").unwrap();
        let (disk, copies) = (Disk::with_free_bytes(5), Copies::default());
        let mut intake = Intake::new(&disk, OutputLimit::new(0, 0, 1000), &copies);
        let (output, _) = take(|| printing(4), &dir, &mut intake).await.unwrap();
        assert_eq!(output.stdout.len(), 40);
        assert!(!dir.stdout().exists() && intake.is_the_disk_full());
        let message = intake.spoilt.unwrap().message;
        let words = "cannot store its output: no space left on the node's disk (5 B are free";
        assert!(message.starts_with(words), "{message}");
    }
}
