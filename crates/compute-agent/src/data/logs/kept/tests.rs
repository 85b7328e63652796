//! What is stored is read back: from its start, from a position, and from its last lines.

use std::os::unix::fs::FileExt;

use api_types::Timestamp;
use tempfile::TempDir;

use super::*;
use crate::data::logs::cut::{Cut, tail};
use crate::host::data_dir::DataDir;
use crate::testing;

const OUT: LogStream = LogStream::Stdout;
const ERR: LogStream = LogStream::Stderr;
const BEGINNING: Start = Start::Before(LogPosition { stdout: 0, stderr: 0 });

fn chunk(stream: LogStream, time: i64, bytes: &'static [u8]) -> OutputChunk {
    OutputChunk { stream, time: Timestamp(time), bytes: Bytes::from_static(bytes) }
}

/// The root is removed when it is dropped.
async fn stored(printed: &[OutputChunk]) -> (TempDir, ExecutionDir) {
    let root = tempfile::tempdir().unwrap();
    let dir =
        DataDir::open(root.path()).unwrap().executions().for_execution(testing::execution_id(1));
    store(&dir, printed).await;
    (root, dir)
}

/// Continues after what is stored.
async fn store(dir: &ExecutionDir, printed: &[OutputChunk]) -> Stored {
    let mut writer = Writer::open(dir, &testing::any_disk()).await.unwrap();
    for chunk in printed {
        writer.gather(chunk).unwrap();
    }
    writer.write().await.unwrap();
    writer.stored()
}

async fn rest(reader: &mut Reader) -> Vec<OutputChunk> {
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next().await.unwrap() {
        chunks.push(chunk);
    }
    chunks
}

/// Both streams, told apart.
fn text(chunks: &[OutputChunk]) -> String {
    let of = |chunk: &OutputChunk| {
        let text = String::from_utf8_lossy(&chunk.bytes).into_owned();
        if chunk.stream == OUT { text } else { text.to_uppercase() }
    };
    chunks.iter().map(of).collect()
}

#[tokio::test]
async fn stored_output_is_read_back_in_order_with_its_times() {
    let printed = [chunk(OUT, 1, b"one\n"), chunk(ERR, 2, b"\xff\xfe"), chunk(OUT, 3, b"two\n")];
    let (_root, dir) = stored(&printed).await;
    assert_eq!(std::fs::read(dir.stdout()).unwrap(), b"one\ntwo\n");
    let (mut reader, first) = Reader::open(&dir, BEGINNING, None, None).await.unwrap().unwrap();
    assert_eq!(first, LogPosition::default());
    // The retention may remove it under a reader.
    dir.remove().unwrap();
    assert_eq!(rest(&mut reader).await, printed);
    assert!(Reader::open(&dir, BEGINNING, None, None).await.unwrap().is_none());
}

#[tokio::test]
async fn a_long_piece_is_read_in_parts() {
    let long = vec![b'x'; 2 * MAX_FRAME_OUTPUT_BYTES + 1];
    let whole = OutputChunk { stream: OUT, time: Timestamp(1), bytes: long.clone().into() };
    let (_root, dir) = stored(&[whole]).await;
    let (mut reader, _) = Reader::open(&dir, BEGINNING, None, None).await.unwrap().unwrap();
    let parts: Vec<_> = rest(&mut reader).await.into_iter().map(|part| part.bytes).collect();
    assert_eq!((parts.len(), parts.concat()), (3, long));
}

/// Lines of both streams, in pieces that end anywhere.
fn pieces() -> Vec<OutputChunk> {
    vec![
        chunk(OUT, 1, b"a\nbb"),
        chunk(ERR, 2, b"x"),
        chunk(OUT, 3, b"b\n\n"),
        chunk(ERR, 4, b"y\nz"),
        chunk(OUT, 5, b"c\nd\ne\n"),
        chunk(OUT, 6, b"f"),
    ]
}

#[tokio::test]
async fn the_last_lines_are_those_that_counting_from_the_start_finds() {
    let (_root, dir) = stored(&pieces()).await;
    for only in [None, Some(OUT), Some(ERR)] {
        let is_wanted = |chunk: &OutputChunk| only.is_none_or(|only| only == chunk.stream);
        let printed: Vec<_> = pieces().into_iter().filter(is_wanted).collect();
        for count in 0..12 {
            let start = Start::LastLines(count);
            let (mut reader, first) = Reader::open(&dir, start, only, None).await.unwrap().unwrap();
            let mut found = rest(&mut reader).await;
            found.retain(is_wanted);
            let (expected, position) = tail(&printed, count);
            assert_eq!(text(&found), text(&expected), "the last {count} lines of {only:?}");
            for stream in [OUT, ERR].into_iter().filter(|stream| only.is_none_or(|o| o == *stream))
            {
                assert_eq!(first.offset(stream), position.offset(stream), "{count} of {only:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_reader_resumes_at_any_position() {
    let (_root, dir) = stored(&pieces()).await;
    let all = |stream| {
        let of_stream = pieces().into_iter().filter(move |chunk| chunk.stream == stream);
        of_stream.flat_map(|chunk| chunk.bytes).collect::<Vec<_>>()
    };
    for stdout in 0..=all(OUT).len() + 1 {
        for stderr in 0..=all(ERR).len() + 1 {
            let wanted = LogPosition { stdout: stdout as u64, stderr: stderr as u64 };
            let opened = Reader::open(&dir, Start::Before(wanted), None, None).await.unwrap();
            let (mut reader, first) = opened.unwrap();
            let mut cut = Cut::between(first, wanted);
            let passed = rest(&mut reader).await.into_iter().filter_map(|chunk| cut.pass(chunk));
            let passed: Vec<_> = passed.collect();
            for (stream, from) in [(OUT, stdout), (ERR, stderr)] {
                let of_stream = passed.iter().filter(|chunk| chunk.stream == stream);
                let found: Vec<u8> = of_stream.flat_map(|chunk| chunk.bytes.to_vec()).collect();
                let all = all(stream);
                assert_eq!(found, all[from.min(all.len())..], "{stream:?} of {wanted:?}");
            }
        }
    }
}

/// Records before the one at which a reader may start reading.
const BEFORE: u64 = 100_000;

/// Output of which reading the beginning is an error.
async fn without_a_beginning() -> (TempDir, ExecutionDir) {
    let printed: Vec<_> = (0..BEFORE + 10_000).map(|_| chunk(OUT, 1, b"a line\n")).collect();
    let (root, dir) = stored(&printed).await;
    let index = std::fs::File::options().write(true).open(dir.output_index()).unwrap();
    let spoilt = vec![0xff; usize::try_from(BEFORE).unwrap() * RECORD_BYTES];
    index.write_all_at(&spoilt, 0).unwrap();
    Reader::open(&dir, BEGINNING, None, None).await.unwrap().unwrap().0.next().await.unwrap_err();
    (root, dir)
}

#[tokio::test]
async fn the_last_lines_cost_only_themselves() {
    let (_root, dir) = without_a_beginning().await;
    let (mut reader, first) =
        Reader::open(&dir, Start::LastLines(2000), None, None).await.unwrap().unwrap();
    assert_eq!(first, LogPosition { stdout: (BEFORE + 8000) * 7, stderr: 0 });
    assert_eq!(rest(&mut reader).await.len(), 2000);
}

#[tokio::test]
async fn resuming_costs_only_what_follows() {
    let (_root, dir) = without_a_beginning().await;
    let wanted = LogPosition { stdout: (BEFORE + 9000) * 7 + 2, stderr: 0 };
    let (mut reader, first) =
        Reader::open(&dir, Start::Before(wanted), None, None).await.unwrap().unwrap();
    assert_eq!(first.stdout, (BEFORE + 9000) * 7);
    assert_eq!(rest(&mut reader).await.len(), 1000);
}

#[tokio::test]
async fn an_index_of_other_output_is_an_error() {
    let (_root, dir) = stored(&pieces()).await;
    std::fs::write(dir.stdout(), b"short").unwrap();
    let opened = Reader::open(&dir, Start::LastLines(9), None, None).await;
    assert_eq!(opened.err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
}

#[tokio::test]
async fn a_writer_continues_after_whole_records_and_cuts_off_what_a_crash_left() {
    let printed = [chunk(OUT, 1, b"one\n"), chunk(ERR, 2, b"oops\n"), chunk(OUT, 3, b"two\n")];
    let (_root, dir) = stored(&printed[..2]).await;
    // Bytes without a record, and a part of a record.
    std::fs::write(dir.stdout(), "one\ntw").unwrap();
    let index = std::fs::OpenOptions::new().write(true).open(dir.output_index()).unwrap();
    index.write_all_at(b"part", 2 * RECORD_BYTES as u64).unwrap();
    let now = store(&dir, &printed[2..]).await;
    assert_eq!((now.records, now.position), (3, LogPosition { stdout: 8, stderr: 5 }));
    let (mut reader, _) = Reader::open(&dir, BEGINNING, None, None).await.unwrap().unwrap();
    assert_eq!(rest(&mut reader).await, printed);
    // A record whose bytes are gone, as after a power cut.
    std::fs::write(dir.stdout(), "one\n").unwrap();
    let now = store(&dir, &[]).await;
    assert_eq!((now.records, now.position), (2, LogPosition { stdout: 4, stderr: 5 }));
}

#[tokio::test]
async fn output_that_is_being_written_is_read_as_far_as_it_is_stored() {
    let root = tempfile::tempdir().unwrap();
    let dir =
        DataDir::open(root.path()).unwrap().executions().for_execution(testing::execution_id(1));
    let printed = [chunk(OUT, 1, b"one\n"), chunk(OUT, 2, b"two\n"), chunk(ERR, 3, b"oops\n")];
    let first = store(&dir, &printed[..1]).await;
    let second = store(&dir, &printed[1..2]).await;
    let opened = Reader::open(&dir, Start::LastLines(1), None, Some(first)).await;
    let (mut reader, position) = opened.unwrap().unwrap();
    assert_eq!(position, LogPosition::default());
    assert_eq!(rest(&mut reader).await, printed[..1]);
    reader.extend_to(second);
    assert_eq!(rest(&mut reader).await, printed[1..2]);
    // Of a stream whose file did not exist when the reader began.
    reader.extend_to(store(&dir, &printed[2..]).await);
    assert_eq!(rest(&mut reader).await, printed[2..]);
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_gathered() {
    let root = tempfile::tempdir().unwrap();
    let dir =
        DataDir::open(root.path()).unwrap().executions().for_execution(testing::execution_id(1));
    let full = crate::host::disk::Disk::with_free_bytes(3);
    let mut writer = Writer::open(&dir, &full).await.unwrap();
    writer.gather(&chunk(OUT, 1, b"one\n")).unwrap();
    assert!(crate::host::disk::is_full(&writer.write().await.unwrap_err()));
    assert_eq!((writer.stored().records, writer.with_gathered().records), (0, 1));
    assert!(!dir.output_index().exists() && !writer.is_written());
}
