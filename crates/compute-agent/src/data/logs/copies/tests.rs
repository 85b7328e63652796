//! What is copied of a running task's output, and when.

use api_types::Timestamp;
use api_types::log::{LogPosition, LogStream};
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc;

use super::*;
use crate::data::logs::kept::{Reader, Start};
use crate::host::data_dir::DataDir;
use crate::runtime::OutputChunk;
use crate::testing::{OutputAlone, any_disk, execution_id};

const KEEPING: OutputKeeping = OutputKeeping::WithEngine { piece_bytes: 10 };

fn chunk(time: i64, text: &'static str) -> OutputChunk {
    let (stream, bytes) = (LogStream::Stdout, Bytes::from_static(text.as_bytes()));
    OutputChunk { stream, time: Timestamp(time), bytes }
}

fn any_limit() -> OutputLimit {
    OutputLimit::new(0, 0, u64::MAX)
}

struct Fixture {
    _root: tempfile::TempDir,
    dir: ExecutionDir,
    disk: Disk,
    ended: CancellationToken,
    copies: Copies,
}

impl Fixture {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().for_execution(execution_id(1));
        let (ended, copies) = (CancellationToken::new(), Copies::default());
        Self { _root: root, dir, disk: any_disk(), ended, copies }
    }

    async fn run(&self, executor: &OutputAlone, limit: OutputLimit) -> Option<Failure> {
        let source = Source {
            id: execution_id(1),
            executor,
            dir: &self.dir,
            disk: &self.disk,
            ended: &self.ended,
        };
        self.copies.begin(execution_id(1)).run(&source, limit).await
    }

    async fn copied(&self) -> String {
        let start = Start::Before(LogPosition::default());
        let mut text = String::new();
        if let Some((mut reader, _)) = Reader::open(&self.dir, start, None, None).await.unwrap() {
            while let Some(chunk) = reader.next().await.unwrap() {
                text += std::str::from_utf8(&chunk.bytes).unwrap();
            }
        }
        text
    }
}

#[tokio::test]
async fn output_is_there_as_it_comes_and_survives_its_engine() {
    let fixture = Fixture::new();
    let (sender, receiver) = mpsc::unbounded_channel();
    let receiver = Mutex::new(Some(receiver));
    let executor = OutputAlone::new(KEEPING, move |range| {
        assert!(range.follow);
        match receiver.lock().unwrap().take() {
            Some(receiver) => {
                stream::unfold(receiver, |mut receiver: mpsc::UnboundedReceiver<_>| async {
                    receiver.recv().await.map(|chunk| (chunk, receiver))
                })
                .left_stream()
            }
            // The container is gone.
            None => stream::once(async { Err(ExecutorError::Gone) }).right_stream(),
        }
    });
    let mut copied = fixture.copies.begin(execution_id(1)).state.subscribe();
    let running = fixture.run(&executor, any_limit());
    let using = async {
        for (count, text) in [(1, "one\n"), (2, "two\n")] {
            sender.send(Ok(chunk(count, text))).unwrap();
            let is_there = |copied: &Copied| copied.stored.records == u64::try_from(count).unwrap();
            copied.wait_for(is_there).await.unwrap();
        }
        drop(sender);
        fixture.ended.cancel();
    };
    assert_eq!(tokio::join!(running, using).0, None);
    assert_eq!(fixture.copied().await, "one\ntwo\n");
    assert_eq!(fixture.copies.progress(execution_id(1)), Some(CopyProgress::Stopped));
}

/// An agent that ends, and an engine that restarts, are the same to a copy: it reads again.
#[tokio::test]
async fn a_copy_that_begins_again_neither_loses_nor_repeats_anything() {
    let fixture = Fixture::new();
    let printed = ["a\n", "b", "c\n", "d\n", "e\n"];
    let reads = Mutex::new(0_usize);
    let ended = fixture.ended.clone();
    let executor = OutputAlone::new(KEEPING, move |range| {
        let mut reads = reads.lock().unwrap();
        *reads += 1;
        if *reads > printed.len() {
            ended.cancel();
        }
        // Everything so far; the first part of what is before the last chunk may be dropped.
        let times = [1, 2, 2, 3, 4];
        let all = times.into_iter().zip(printed).take(*reads);
        let since = range.since.map_or(0, |since| since.0);
        let chunks = all.filter(|(time, _)| *time >= since);
        let chunks: Vec<_> = chunks.map(|(time, text)| Ok(chunk(time, text))).collect();
        stream::iter(chunks)
    });
    assert_eq!(fixture.run(&executor, any_limit()).await, None);
    assert_eq!(fixture.copied().await, printed.concat());
}

#[tokio::test]
async fn a_task_that_prints_too_much_is_found_out_while_it_runs() {
    let failure = |text: &'static str, limit| async move {
        let fixture = Fixture::new();
        let endless = move |_| stream::iter(0..).map(move |time| Ok(chunk(time, text)));
        let executor = OutputAlone::new(KEEPING, endless);
        let failure = fixture.run(&executor, OutputLimit::new(limit, 0, 0)).await;
        (failure.unwrap(), fixture.copied().await.len() as u64)
    };
    let (long, copied_bytes) = failure("0123456789012345678901234567890123456789\n", 200).await;
    assert_eq!(copied_bytes, 41 * 3);
    let words = "what it printed (stdout and stderr), with the time of each line or part of a \
                 line, has 204 B, more than the 200 B of the task's Resources.Disk; ask for more";
    assert_eq!(long, Failure::task(words));
    // Empty lines take a disk as well.
    let (empty, copied_bytes) = failure("\n", 1000).await;
    assert_eq!(copied_bytes, 1000 / 11);
    assert!(empty.message.contains("has 1 kB"), "{}", empty.message);
}

#[tokio::test]
async fn output_that_a_full_disk_refuses_waits_and_is_not_lost() {
    let fixture = Fixture { disk: Disk::with_free_bytes(3), ..Fixture::new() };
    let executor = OutputAlone::new(KEEPING, |_| {
        stream::iter([Ok(chunk(1, "one\n"))]).chain(stream::pending())
    });
    let using = async {
        let wanted = fixture.copies.wanted(execution_id(1));
        tokio::time::sleep(PAUSE * 10).await;
        assert_eq!(wanted.unwrap().borrow().stored.records, 0);
        fixture.ended.cancel();
    };
    fixture.copies.begin(execution_id(1));
    let (failure, ()) = tokio::join!(fixture.run(&executor, any_limit()), using);
    assert_eq!((failure, fixture.copied().await.as_str()), (None, ""));
}

#[tokio::test]
async fn a_short_task_is_not_copied_unless_a_reader_waits() {
    let (copies, ended) = (Copies::default(), CancellationToken::new());
    let copy = copies.begin(execution_id(1));
    let begun = Instant::now();
    copies.wanted(execution_id(1)).unwrap();
    assert!(copy.is_due(&ended).await);
    assert!(begun.elapsed() < BEGIN_AFTER);
    ended.cancel();
    assert!(!copy.is_due(&ended).await);
    assert!(copies.wanted(execution_id(2)).is_none());
}
