//! Stores the output of a task on this node's disk, while it runs and after it has ended.
//!
//! Each stream is a file with its bytes as printed. The index has a record per chunk: its time,
//! its length and its stream, in the order of both streams together.

mod backwards;
mod record;
mod writer;

use std::io::{self, Seek, SeekFrom};

use api_types::log::{LogPosition, LogStream, MAX_FRAME_OUTPUT_BYTES};
use bytes::Bytes;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, BufReader};

use crate::host::data_dir::ExecutionDir;
use crate::runtime::OutputChunk;
pub(crate) use backwards::Start;
use backwards::{Cursor, Files};
use record::{RECORD_BYTES, Record, existing, missing};
pub(crate) use writer::{Last, Stored, Writer};

/// Size of disk reads; each costs a hop to another thread.
const BUFFER_BYTES: usize = 128 << 10;

/// Reads output back. Files that are removed during a read are read to their end.
pub(crate) struct Reader {
    dir: ExecutionDir,
    index: BufReader<File>,
    stdout: Option<BufReader<File>>,
    stderr: Option<BufReader<File>>,
    /// The rest of a chunk that was too long to return in one piece.
    rest: Option<Record>,
    /// The number of the next record, and the bytes of each stream before it or its rest.
    record: u64,
    position: LogPosition,
    /// The records that may be read; all when none.
    records: Option<u64>,
}

// === impl Reader ===

impl Reader {
    /// Also returns the position of the first chunk; none when the task printed nothing. With
    /// `only`, the start is found by the output of that stream. Output that is still being written
    /// is read up to `stored`.
    pub(crate) async fn open(
        dir: &ExecutionDir,
        start: Start,
        only: Option<LogStream>,
        stored: Option<Stored>,
    ) -> io::Result<Option<(Self, LogPosition)>> {
        let dir = dir.clone();
        let open = move || {
            let Some(index) = existing(&dir.output_index())? else { return Ok(None) };
            let (stdout, stderr) = (existing(&dir.stdout())?, existing(&dir.stderr())?);
            let files = Files { index, stdout, stderr, stored };
            let cursor = files.find(start, only)?;
            Self::new(dir, files, &cursor).map(|reader| Some((reader, cursor.position)))
        };
        tokio::task::spawn_blocking(open).await.map_err(io::Error::other)?
    }

    fn new(dir: ExecutionDir, files: Files, cursor: &Cursor) -> io::Result<Self> {
        let Files { index, stdout, stderr, stored } = files;
        Ok(Self {
            dir,
            index: reading(index, cursor.record * RECORD_BYTES as u64)?,
            stdout: stdout.map(|file| reading(file, cursor.position.stdout)).transpose()?,
            stderr: stderr.map(|file| reading(file, cursor.position.stderr)).transpose()?,
            rest: cursor.rest,
            record: cursor.record,
            position: cursor.position,
            records: stored.map(|stored| stored.records),
        })
    }

    /// More was written.
    pub(crate) fn extend_to(&mut self, stored: Stored) {
        self.records = Some(stored.records);
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
        let position = self.position.offset(record.stream);
        let (file, path) = match record.stream {
            LogStream::Stdout => (&mut self.stdout, self.dir.stdout()),
            LogStream::Stderr => (&mut self.stderr, self.dir.stderr()),
        };
        let file = match file {
            Some(file) => file,
            // It was created after the reader began.
            None => {
                let opened = existing(&path)?.ok_or_else(missing)?;
                file.insert(reading(opened, position)?)
            }
        };
        let mut bytes = vec![0; take];
        file.read_exact(&mut bytes).await?;
        *self.position.offset_mut(record.stream) += take as u64;
        let Record { time, stream, .. } = record;
        Ok(Some(OutputChunk { stream, time, bytes: Bytes::from(bytes) }))
    }

    async fn record(&mut self) -> io::Result<Option<Record>> {
        if self.records.is_some_and(|records| self.record >= records) {
            return Ok(None);
        }
        let mut record = [0; RECORD_BYTES];
        match self.index.read_exact(&mut record).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        };
        self.record += 1;
        Record::decode(&record).map(Some)
    }
}

fn reading(mut file: std::fs::File, bytes: u64) -> io::Result<BufReader<File>> {
    file.seek(SeekFrom::Start(bytes))?;
    Ok(BufReader::with_capacity(BUFFER_BYTES, File::from_std(file)))
}

#[cfg(test)]
mod tests;
