//! Unpacks untrusted tars: no entry leaves the directory, and size and number are bounded.

pub(crate) mod part;

use std::fs::{File, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bytes::{Buf, Bytes};
use rustix::fs::Mode;
use rustix::io::Errno;
use tar::EntryType;
use tokio::sync::mpsc;
use unpack::{BadPath, Beneath, Entries, Entry, RelativePath};

use crate::data::omitted::{Omitted, shown};
use crate::host::disk::Disk;
use part::{Part, Selected};

/// Bytes per write, and the smallest hole.
const CHUNK_BYTES: usize = 64 << 10;

/// Entries of one archive; a larger archive is refused, before the file system suffers.
const MAX_ENTRIES: usize = 100_000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArchiveError {
    #[error("it has more than {MAX_ENTRIES} entries")]
    TooManyEntries,
    #[error("it is larger than {limit_bytes} bytes when unpacked")]
    TooLarge {
        limit_bytes: u64,
        /// The size when unpacking stopped; the whole archive is at least as large.
        least_bytes: u64,
    },
    #[error("its entry '{path}' leads out of the archive")]
    Escape { path: String },
    /// Its name, or two entries that exclude each other; no disk would take it.
    #[error("its entry '{path}' cannot be a file here: {reason}")]
    Unusable { path: String, reason: &'static str },
    #[error("an entry {}", BadPath::TooDeep)]
    TooDeep,
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// How unpacking treats the permissions in an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Modes {
    /// Everything becomes readable for all: the task runs as another user than the agent.
    Readable,
    /// Kept as they are, except that the agent keeps read and remove access to what it unpacked.
    Kept,
}

/// What was unpacked.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    /// Of all files, without their holes.
    pub(crate) bytes: u64,
    /// Entries that are no files, directories or links.
    pub(crate) omitted: Omitted,
    pub(crate) selected: Selected,
}

/// Unpacks files, directories and links below `into`, and skips other entries.
///
/// Everything is created from an open directory ([`Beneath`]), so no name leads out. A symbolic
/// link may point anywhere, since the task resolves it inside its own file system; readers of the
/// directory on the node must not follow it.
pub(crate) fn unpack(
    reader: impl Read,
    into: &Path,
    limit: impl Into<SizeLimit>,
    modes: Modes,
    disk: &Disk,
) -> Result<Unpacked, ArchiveError> {
    unpack_part(reader, &Part::everything(), into, limit, modes, disk)
}

/// The same for a part of the archive; the size of the rest does not matter.
pub(crate) fn unpack_part(
    reader: impl Read,
    part: &Part,
    into: &Path,
    limit: impl Into<SizeLimit>,
    modes: Modes,
    disk: &Disk,
) -> Result<Unpacked, ArchiveError> {
    let limit = limit.into();
    let mut unpacking = Unpacking {
        into: Beneath::create(into)?,
        part,
        selected: part.initially(),
        modes,
        disk,
        stored_bytes: 0,
        limit_bytes: limit.stored_bytes,
        buffer: vec![0; CHUNK_BYTES],
        directories: Vec::new(),
        omitted: Omitted::default(),
    };
    let mut entries = Entries::new(reader);
    let mut total_bytes: u64 = 0;
    let most = limit.apparent_bytes;
    let mut count = 0;
    while let Some(entry) = entries.advance()? {
        count += 1;
        if count > MAX_ENTRIES {
            return Err(ArchiveError::TooManyEntries);
        }
        let Some((path, selected)) = part.place(&entry)? else { continue };
        let apparent_bytes = entry.sparse.as_ref().map_or(entry.size_bytes, |it| it.size_bytes);
        total_bytes = total_bytes.saturating_add(apparent_bytes);
        if total_bytes > most {
            return Err(ArchiveError::TooLarge { limit_bytes: most, least_bytes: total_bytes });
        }
        if unpacking.selected != Selected::File {
            unpacking.selected = selected;
        }
        unpacking.take(path, &entry, &mut entries)?;
    }
    let selected = unpacking.selected;
    let omitted = std::mem::take(&mut unpacking.omitted);
    let bytes = unpacking.stored_bytes;
    unpacking.finish()?;
    Ok(Unpacked { bytes, omitted, selected })
}

/// How large an archive may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeLimit {
    /// What takes space on the disk: everything but zeros.
    stored_bytes: u64,
    /// With zeros, which take time to unpack.
    apparent_bytes: u64,
}

/// How much larger than its space on the disk a task's result may seem.
const HOLES: u64 = 100;

/// One archive being unpacked.
struct Unpacking<'a> {
    stored_bytes: u64,
    limit_bytes: u64,
    part: &'a Part,
    selected: Selected,
    into: Beneath,
    modes: Modes,
    disk: &'a Disk,
    buffer: Vec<u8>,
    directories: Vec<(RelativePath, u32)>,
    omitted: Omitted,
}

// === impl SizeLimit ===

impl SizeLimit {
    /// For what a task wrote: it may have holes, such as a disk image or a database.
    pub(crate) fn with_holes(stored_bytes: u64) -> Self {
        Self { stored_bytes, apparent_bytes: stored_bytes.saturating_mul(HOLES) }
    }
}

impl From<u64> for SizeLimit {
    fn from(bytes: u64) -> Self {
        Self { stored_bytes: bytes, apparent_bytes: bytes }
    }
}

// === impl Unpacking ===

impl Unpacking<'_> {
    fn take(
        &mut self,
        path: RelativePath,
        entry: &Entry,
        content: &mut impl Read,
    ) -> Result<(), ArchiveError> {
        let refused = |error: io::Error| refused(&entry.path, error);
        match entry.kind {
            EntryType::Directory => {
                self.into.directory(&path).map_err(refused)?;
                self.directories.push((path, entry.mode));
            }
            EntryType::Regular | EntryType::Continuous => {
                let mut file = self.into.create_file(&path).map_err(refused)?;
                self.fill(&mut file, content)?;
                file.set_permissions(Permissions::from_mode(self.modes.of_file(entry.mode)))?;
            }
            EntryType::Symlink => self.into.create_link(&path, &entry.link).map_err(refused)?,
            EntryType::Link => {
                let target = self.part.target(entry)?;
                self.into.create_hard_link(&path, &target).map_err(refused)?;
            }
            EntryType::GNUSparse => {
                let missing = || io::Error::other("a file with holes does not say where they are");
                let sparse = entry.sparse.as_ref().ok_or_else(missing)?;
                let mut file = self.into.create_file(&path).map_err(refused)?;
                self.store(entry.size_bytes)?;
                sparse.fill(&mut file, content)?;
                file.set_permissions(Permissions::from_mode(self.modes.of_file(entry.mode)))?;
            }
            EntryType::Fifo => self.omitted.add(&entry.path, "a named pipe"),
            EntryType::Char | EntryType::Block => self.omitted.add(&entry.path, "a device"),
            _ => self.omitted.add(&entry.path, "neither a file, a directory nor a link"),
        }
        Ok(())
    }

    /// Writes the content; a chunk of zeros becomes a hole, so that a sparse file stays sparse.
    fn fill(&mut self, file: &mut File, content: &mut impl Read) -> Result<(), ArchiveError> {
        let mut size_bytes: u64 = 0;
        loop {
            let filled = read_chunk(content, &mut self.buffer)?;
            let bytes = filled as u64;
            if filled == 0 {
                return Ok(file.set_len(size_bytes)?);
            }
            if self.buffer[..filled].iter().all(|byte| *byte == 0) {
                file.seek(SeekFrom::Current(bytes.try_into().map_err(io::Error::other)?))?;
            } else {
                self.store(bytes)?;
                file.write_all(&self.buffer[..filled])?;
            }
            size_bytes += bytes;
        }
    }

    /// Counts bytes that are about to take space, or refuses them.
    fn store(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.stored_bytes = self.stored_bytes.saturating_add(bytes);
        if self.stored_bytes > self.limit_bytes {
            let (limit_bytes, least_bytes) = (self.limit_bytes, self.stored_bytes);
            return Err(ArchiveError::TooLarge { limit_bytes, least_bytes });
        }
        Ok(self.disk.take(bytes)?)
    }

    /// Modes of directories come last, deepest first: a directory may deny access to its content.
    fn finish(mut self) -> io::Result<()> {
        for (path, mode) in std::mem::take(&mut self.directories).into_iter().rev() {
            // A later entry of the same name may have replaced it.
            if let Ok(directory) = self.into.directory(&path) {
                let mode = Mode::from_raw_mode(self.modes.of_directory(mode));
                rustix::fs::fchmod(directory, mode)?;
            }
        }
        Ok(())
    }
}

/// The path below the directory: an absolute path counts from it.
fn relative(path: &Path) -> Result<RelativePath, ArchiveError> {
    let inside = path.strip_prefix("/").unwrap_or(path);
    RelativePath::new(inside).map_err(|reason| match reason {
        BadPath::Escape => ArchiveError::Escape { path: shown(path) },
        BadPath::TooDeep => ArchiveError::TooDeep,
    })
}

/// As much as fits, unless the content ends.
fn read_chunk(content: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match content.read(&mut buffer[filled..])? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Why an entry cannot be created. What its name or its place excludes is no fault of the disk.
fn refused(path: &Path, error: io::Error) -> ArchiveError {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        // Something on the way is a link, or a file.
        Some(Errno::LOOP | Errno::NOTDIR) => ArchiveError::Escape { path: shown(path) },
        other => match other.and_then(why_unusable) {
            Some(reason) => ArchiveError::Unusable { path: shown(path), reason },
            None => ArchiveError::Io(error),
        },
    }
}

/// Why no disk takes a file of this name, or in this place; none for other errors.
pub(crate) fn why_unusable(error: Errno) -> Option<&'static str> {
    match error {
        Errno::NAMETOOLONG => Some("its name is too long"),
        Errno::NOTDIR => Some("there is a file where it needs a directory"),
        Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => Some("there is a directory in its place"),
        Errno::INVAL | Errno::ILSEQ => Some("its name is not allowed"),
        _ => None,
    }
}

// === impl Modes ===

impl Modes {
    const fn of_file(self, mode: u32) -> u32 {
        match self {
            Self::Readable => (mode & 0o755) | 0o444,
            Self::Kept => (mode & 0o777) | 0o400,
        }
    }

    const fn of_directory(self, mode: u32) -> u32 {
        match self {
            Self::Readable => 0o755,
            Self::Kept => (mode & 0o777) | 0o700,
        }
    }
}

/// Lets a blocking thread read the chunks of an asynchronous stream.
pub(crate) struct ChunkReader {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
}

// === impl ChunkReader ===

impl ChunkReader {
    pub(crate) fn new(chunks: mpsc::Receiver<io::Result<Bytes>>) -> Self {
        Self { chunks, current: Bytes::new() }
    }
}

impl Read for ChunkReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.chunks.blocking_recv() {
                Some(chunk) => self.current = chunk?,
                None => return Ok(0),
            }
        }
        let taken = buffer.len().min(self.current.len());
        self.current.copy_to_slice(&mut buffer[..taken]);
        Ok(taken)
    }
}

#[cfg(test)]
mod tests;
