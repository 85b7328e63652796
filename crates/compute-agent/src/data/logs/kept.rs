//! Stores the output of an ended task on this node's disk.
//!
//! Each stream is a file with its bytes as printed. The index has a record per chunk: its time,
//! its length and its stream, in the order of both streams together.

mod backwards;

use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use api_types::Timestamp;
use api_types::log::{LogPosition, LogStream, MAX_FRAME_OUTPUT_BYTES};
use bytes::Bytes;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, BufWriter};

use crate::host::data_dir::ExecutionDir;
use crate::runtime::OutputChunk;
pub(crate) use backwards::Start;
use backwards::{Files, Place};

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

#[derive(Debug, Clone, Copy)]
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
    path: &Path,
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
    /// Also returns the position of the first chunk; none when the task printed nothing. With
    /// `only`, the start is found by the output of that stream.
    pub(crate) async fn open(
        dir: &ExecutionDir,
        start: Start,
        only: Option<LogStream>,
    ) -> io::Result<Option<(Self, LogPosition)>> {
        let (index, stdout, stderr) = (dir.output_index(), dir.stdout(), dir.stderr());
        let open = move || {
            let Some(index) = existing(&index)? else { return Ok(None) };
            let files = Files { index, stdout: existing(&stdout)?, stderr: existing(&stderr)? };
            let place = files.find(start, only)?;
            Self::new(files, &place).map(|reader| Some((reader, place.position)))
        };
        tokio::task::spawn_blocking(open).await.map_err(io::Error::other)?
    }

    fn new(Files { index, stdout, stderr }: Files, place: &Place) -> io::Result<Self> {
        let at = |mut file: std::fs::File, bytes| {
            file.seek(SeekFrom::Start(bytes))?;
            Ok::<_, io::Error>(BufReader::with_capacity(BUFFER_BYTES, File::from_std(file)))
        };
        Ok(Self {
            index: at(index, place.record * RECORD_BYTES as u64)?,
            stdout: stdout.map(|file| at(file, place.position.stdout)).transpose()?,
            stderr: stderr.map(|file| at(file, place.position.stderr)).transpose()?,
            rest: place.rest,
        })
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
        Record::decode(&record).map(Some)
    }
}

// === impl Record ===

impl Record {
    fn decode(record: &[u8; RECORD_BYTES]) -> io::Result<Self> {
        let [time @ .., a, b, c, d, stream] = *record;
        let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let stream = match stream {
            STDOUT => LogStream::Stdout,
            STDERR => LogStream::Stderr,
            other => {
                let reason = format!("the index of kept output names stream {other}");
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
        };
        Ok(Self { time: Timestamp(i64::from_le_bytes(time)), bytes, stream })
    }
}

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "a stream of kept output")
}

fn existing(path: &Path) -> io::Result<Option<std::fs::File>> {
    match std::fs::File::open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
