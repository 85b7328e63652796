//! Stores the output of an ended task on this node's disk.
//!
//! Each stream is a file with its bytes as printed. The index has a record per chunk: its time,
//! its length and its stream, in the order of both streams together.

use std::io;

use api_types::Timestamp;
use api_types::log::{LogStream, MAX_FRAME_OUTPUT_BYTES};
use bytes::Bytes;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};

use crate::host::data_dir::ExecutionDir;
use crate::runtime::OutputChunk;

/// The time (8 bytes), the length (4), the stream (1); little-endian.
const RECORD_BYTES: usize = 13;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;

/// Size of disk reads and writes; each costs a hop to another thread.
const BUFFER_BYTES: usize = 128 << 10;

/// Writes output; each file is created with its first byte.
pub(crate) struct Writer<'a> {
    dir: &'a ExecutionDir,
    index: Option<BufWriter<File>>,
    stdout: Option<BufWriter<File>>,
    stderr: Option<BufWriter<File>>,
}

/// Reads output back. Files that are removed during a read are read to their end.
pub(crate) struct Reader {
    index: BufReader<File>,
    stdout: Option<BufReader<File>>,
    stderr: Option<BufReader<File>>,
    /// The rest of a chunk that was too long to return at once.
    rest: Option<Record>,
}

#[derive(Clone, Copy)]
struct Record {
    time: Timestamp,
    bytes: usize,
    stream: LogStream,
}

// === impl Writer ===

impl<'a> Writer<'a> {
    pub(crate) fn new(dir: &'a ExecutionDir) -> Self {
        Self { dir, index: None, stdout: None, stderr: None }
    }

    pub(crate) async fn add(&mut self, chunk: &OutputChunk) -> io::Result<()> {
        let Ok(length) = u32::try_from(chunk.bytes.len()) else {
            return Err(io::Error::other("a piece of output is longer than 4 GiB"));
        };
        if length == 0 {
            return Ok(());
        }
        if self.index.is_none() {
            self.dir.create()?;
        }
        let (file, path, word) = match chunk.stream {
            LogStream::Stdout => (&mut self.stdout, self.dir.stdout(), STDOUT),
            LogStream::Stderr => (&mut self.stderr, self.dir.stderr(), STDERR),
        };
        opened(file, &path).await?.write_all(&chunk.bytes).await?;
        let mut record = [0; RECORD_BYTES];
        record[..8].copy_from_slice(&chunk.time.0.to_le_bytes());
        record[8..12].copy_from_slice(&length.to_le_bytes());
        record[12] = word;
        opened(&mut self.index, &self.dir.output_index()).await?.write_all(&record).await
    }

    /// The output is durable only when this has returned.
    pub(crate) async fn finish(self) -> io::Result<()> {
        for mut file in [self.stdout, self.stderr, self.index].into_iter().flatten() {
            file.flush().await?;
        }
        Ok(())
    }
}

async fn opened<'f>(
    file: &'f mut Option<BufWriter<File>>,
    path: &std::path::Path,
) -> io::Result<&'f mut BufWriter<File>> {
    match file {
        Some(file) => Ok(file),
        None => {
            let made = File::create(path).await?;
            Ok(file.insert(BufWriter::with_capacity(BUFFER_BYTES, made)))
        }
    }
}

// === impl Reader ===

impl Reader {
    /// None when the task printed nothing.
    pub(crate) async fn open(dir: &ExecutionDir) -> io::Result<Option<Self>> {
        let Some(index) = existing(&dir.output_index()).await? else { return Ok(None) };
        let (stdout, stderr) = (existing(&dir.stdout()).await?, existing(&dir.stderr()).await?);
        Ok(Some(Self { index, stdout, stderr, rest: None }))
    }

    /// The next chunk; none at the end.
    pub(crate) async fn next(&mut self) -> io::Result<Option<OutputChunk>> {
        let record = match self.rest.take() {
            Some(rest) => rest,
            None => match self.record().await? {
                Some(record) => record,
                None => return Ok(None),
            },
        };
        let take = record.bytes.min(MAX_FRAME_OUTPUT_BYTES);
        if record.bytes > take {
            self.rest = Some(Record { bytes: record.bytes - take, ..record });
        }
        let file = match record.stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
        };
        let missing = || io::Error::new(io::ErrorKind::NotFound, "a stream of kept output");
        let mut bytes = vec![0; take];
        file.as_mut().ok_or_else(missing)?.read_exact(&mut bytes).await?;
        let Record { time, stream, .. } = record;
        Ok(Some(OutputChunk { stream, time, bytes: Bytes::from(bytes) }))
    }

    async fn record(&mut self) -> io::Result<Option<Record>> {
        let mut record = [0; RECORD_BYTES];
        match self.index.read_exact(&mut record).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        let [time @ .., a, b, c, d, stream] = record;
        let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let stream = match stream {
            STDOUT => LogStream::Stdout,
            STDERR => LogStream::Stderr,
            other => {
                let reason = format!("the index of kept output names stream {other}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        };
        Ok(Some(Record { time: Timestamp(i64::from_le_bytes(time)), bytes, stream }))
    }
}

async fn existing(path: &std::path::Path) -> io::Result<Option<BufReader<File>>> {
    match File::open(path).await {
        Ok(file) => Ok(Some(BufReader::with_capacity(BUFFER_BYTES, file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::testing;

    #[tokio::test]
    async fn stored_output_is_read_back_in_order_with_its_times() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        assert!(Reader::open(&dir).await.unwrap().is_none());
        let chunk = |stream, time, bytes: &'static [u8]| OutputChunk {
            stream,
            time: Timestamp(time),
            bytes: Bytes::from_static(bytes),
        };
        let printed = [
            chunk(LogStream::Stdout, 1, b"one\n"),
            chunk(LogStream::Stderr, 2, b"\xff\xfe"),
            chunk(LogStream::Stdout, 3, b"two\n"),
        ];
        let mut writer = Writer::new(&dir);
        for chunk in &printed {
            writer.add(chunk).await.unwrap();
        }
        writer.finish().await.unwrap();
        assert_eq!(std::fs::read(dir.stdout()).unwrap(), b"one\ntwo\n");
        let mut reader = Reader::open(&dir).await.unwrap().unwrap();
        // The retention may remove it under a reader.
        dir.remove().unwrap();
        for chunk in &printed {
            assert_eq!(reader.next().await.unwrap().as_ref(), Some(chunk));
        }
        assert!(reader.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_long_piece_is_read_in_parts() {
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path()).unwrap().executions().of(testing::execution_id(1));
        let long = vec![b'x'; 2 * MAX_FRAME_OUTPUT_BYTES + 1];
        let mut writer = Writer::new(&dir);
        let (stream, time) = (LogStream::Stdout, Timestamp(1));
        writer.add(&OutputChunk { stream, time, bytes: long.clone().into() }).await.unwrap();
        writer.finish().await.unwrap();
        let mut reader = Reader::open(&dir).await.unwrap().unwrap();
        let mut parts = Vec::new();
        while let Some(part) = reader.next().await.unwrap() {
            parts.push(part.bytes);
        }
        assert_eq!((parts.len(), parts.concat()), (3, long));
    }
}
