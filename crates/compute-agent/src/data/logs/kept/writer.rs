//! Appends output to what is stored already.
//!
//! The output is gathered in memory and written in one step: first the bytes of the streams, then
//! the records of the index. So a whole record always has its bytes, and a process that ends
//! between the two leaves bytes without a record, which the next writer cuts off.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use api_types::Timestamp;
use api_types::log::{LogPosition, LogStream};

use super::record::{RECORD_BYTES, Record, STDERR, STDOUT, existing};
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::Disk;
use crate::runtime::OutputChunk;

/// What is gathered before a write: each costs a hop to another thread.
const GATHERED_BYTES: usize = 512 << 10;

/// What the files hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) records: u64,
    /// Bytes of each stream.
    pub(crate) position: LogPosition,
    /// The last chunk of each stream.
    pub(crate) last: [Option<Last>; 2],
    /// Whether the times of each stream never decrease.
    pub(crate) is_in_order: bool,
}

/// The last chunk of a stream that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) time: Timestamp,
    /// Bytes with exactly this time that are stored.
    pub(crate) bytes: u64,
}

/// Writes output; each file is created with its first byte.
pub(crate) struct Writer {
    dir: ExecutionDir,
    disk: Disk,
    stored: Stored,
    gathered: Gathered,
    files: Files,
}

#[derive(Default)]
struct Gathered {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    index: Vec<u8>,
    /// What is stored when this is written.
    then: Stored,
}

#[derive(Default)]
struct Files {
    stdout: Option<File>,
    stderr: Option<File>,
    index: Option<File>,
}

// === impl Stored ===

impl Stored {
    pub(crate) fn bytes(&self) -> u64 {
        self.position.stdout.saturating_add(self.position.stderr)
    }

    fn add(&mut self, record: Record) {
        self.records += 1;
        *self.position.offset_mut(record.stream) += record.bytes as u64;
        let last = &mut self.last[usize::from(record.stream == LogStream::Stderr)];
        self.is_in_order &= last.is_none_or(|last| last.time <= record.time);
        let before = last.filter(|last| last.time == record.time).map_or(0, |last| last.bytes);
        *last = Some(Last { time: record.time, bytes: before + record.bytes as u64 });
    }
}

impl Default for Stored {
    fn default() -> Self {
        let position = LogPosition::default();
        Self { records: 0, position, last: [None, None], is_in_order: true }
    }
}

// === impl Writer ===

impl Writer {
    /// Continues after what an earlier writer stored.
    pub(crate) async fn open(dir: &ExecutionDir, disk: &Disk) -> io::Result<Self> {
        let mut stored = Stored::default();
        // Most tasks have no output yet, and a thread to read it would cost more than they do.
        if dir.output_index().exists() {
            let of_blocking = dir.clone();
            let reading = tokio::task::spawn_blocking(move || restore(&of_blocking));
            stored = reading.await.map_err(io::Error::other)??;
        }
        Ok(Self {
            dir: dir.clone(),
            disk: disk.clone(),
            stored,
            gathered: Gathered { then: stored, ..Gathered::default() },
            files: Files::default(),
        })
    }

    /// What a reader finds now.
    pub(crate) fn stored(&self) -> Stored {
        self.stored
    }

    /// The same, once everything is written.
    pub(crate) fn with_gathered(&self) -> Stored {
        self.gathered.then
    }

    pub(crate) fn is_written(&self) -> bool {
        self.gathered.index.is_empty()
    }

    /// Gathers a chunk; returns whether there is enough to write.
    pub(crate) fn gather(&mut self, chunk: &OutputChunk) -> io::Result<bool> {
        let Ok(length) = u32::try_from(chunk.bytes.len()) else {
            return Err(io::Error::other("a piece of output is longer than 4 GiB"));
        };
        if length == 0 {
            return Ok(false);
        }
        let (bytes, word) = match chunk.stream {
            LogStream::Stdout => (&mut self.gathered.stdout, STDOUT),
            LogStream::Stderr => (&mut self.gathered.stderr, STDERR),
        };
        bytes.extend_from_slice(&chunk.bytes);
        let index = &mut self.gathered.index;
        index.extend_from_slice(&chunk.time.0.to_le_bytes());
        index.extend_from_slice(&length.to_le_bytes());
        index.push(word);
        let (time, bytes, stream) = (chunk.time, chunk.bytes.len(), chunk.stream);
        self.gathered.then.add(Record { time, bytes, stream });
        Ok(self.gathered.bytes() >= GATHERED_BYTES)
    }

    /// Writes what is gathered. After an error it is still gathered, and part of it may be in the
    /// files, where no reader sees it and the next attempt writes over it.
    pub(crate) async fn write(&mut self) -> io::Result<()> {
        if self.is_written() {
            return Ok(());
        }
        self.disk.take(self.gathered.bytes() as u64)?;
        let (dir, stored) = (self.dir.clone(), self.stored);
        let mut files = std::mem::take(&mut self.files);
        let gathered = std::mem::take(&mut self.gathered);
        let writing = tokio::task::spawn_blocking(move || {
            let written = files.write(&dir, &gathered, stored);
            (files, gathered, written)
        });
        let (files, gathered, written) = writing.await.map_err(io::Error::other)?;
        self.files = files;
        match written {
            Ok(()) => {
                self.stored = gathered.then;
                self.gathered.then = gathered.then;
                Ok(())
            }
            Err(error) => {
                self.gathered = gathered;
                Err(error)
            }
        }
    }
}

// === impl Gathered ===

impl Gathered {
    fn bytes(&self) -> usize {
        self.stdout.len() + self.stderr.len() + self.index.len()
    }
}

// === impl Files ===

impl Files {
    fn write(&mut self, dir: &ExecutionDir, gathered: &Gathered, at: Stored) -> io::Result<()> {
        if self.index.is_none() {
            dir.create()?;
        }
        let index_bytes = at.records * RECORD_BYTES as u64;
        append(&mut self.stdout, &dir.stdout(), &gathered.stdout, at.position.stdout)?;
        append(&mut self.stderr, &dir.stderr(), &gathered.stderr, at.position.stderr)?;
        append(&mut self.index, &dir.output_index(), &gathered.index, index_bytes)
    }
}

fn append(file: &mut Option<File>, path: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
    use std::os::unix::fs::FileExt;

    if bytes.is_empty() {
        return Ok(());
    }
    let file = match file {
        Some(file) => file,
        None => {
            let made = OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            file.insert(made)
        }
    };
    file.write_all_at(bytes, at)?;
    file.flush()
}

/// What the files hold, after they were cut to the whole records whose bytes are there.
fn restore(dir: &ExecutionDir) -> io::Result<Stored> {
    let Some(index) = existing(&dir.output_index())? else { return Ok(Stored::default()) };
    let length = |path: &Path| match std::fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        metadata => Ok::<u64, io::Error>(metadata?.len()),
    };
    let lengths = LogPosition { stdout: length(&dir.stdout())?, stderr: length(&dir.stderr())? };
    let mut stored = Stored::default();
    let mut records = BufReader::new(index);
    let mut bytes = [0; RECORD_BYTES];
    loop {
        match records.read_exact(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        let record = Record::decode(&bytes)?;
        if stored.position.offset(record.stream) + record.bytes as u64
            > lengths.offset(record.stream)
        {
            break;
        }
        stored.add(record);
    }
    cut(&dir.output_index(), stored.records * RECORD_BYTES as u64)?;
    cut(&dir.stdout(), stored.position.stdout)?;
    cut(&dir.stderr(), stored.position.stderr)?;
    Ok(stored)
}

fn cut(path: &Path, bytes: u64) -> io::Result<()> {
    match OpenOptions::new().write(true).open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => {
            let file = opened?;
            if file.metadata()?.len() > bytes { file.set_len(bytes) } else { Ok(()) }
        }
    }
}
