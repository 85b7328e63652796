//! Reads the entries of a tar from a stream, with a bound on everything that it holds in memory.
//!
//! The reader of the `tar` crate takes names and attributes of any size into memory: 5 MB of
//! compressed archive ask for 4 GiB. This one refuses extension headers beyond a limit; for the
//! format of a header and of PAX records it relies on the crate.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use tar::{EntryType, Header, PaxExtensions};

use crate::sparse::Sparse;

/// Bytes of one extension header: a long name, a long link target, or PAX records.
const MAX_EXTENSION_BYTES: u64 = 64 << 10;

/// The unit of the format.
const BLOCK_BYTES: u64 = 512;

/// The entries of an archive, in order.
pub struct Entries<R> {
    reader: R,
    /// What is left of the current entry: its content, and the rest of its last block.
    content_bytes: u64,
    padding_bytes: u64,
}

/// One entry; its content is read through [`Entries`].
#[derive(Debug)]
pub struct Entry {
    pub kind: EntryType,
    pub path: PathBuf,
    pub link: PathBuf,
    pub mode: u32,
    /// Of its content in the archive.
    pub size_bytes: u64,
    /// Of a file with holes.
    pub sparse: Option<Sparse>,
}

/// What extension headers say of the entry that follows them.
#[derive(Default)]
struct Extensions {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size_bytes: Option<u64>,
}

// === impl Entries ===

impl<R: Read> Entries<R> {
    pub fn new(reader: R) -> Self {
        Self { reader, content_bytes: 0, padding_bytes: 0 }
    }

    /// The next entry; skips what was not read of the last one.
    pub fn advance(&mut self) -> io::Result<Option<Entry>> {
        let mut extensions = Extensions::default();
        loop {
            self.skip_rest()?;
            let Some(header) = self.read_header()? else { return Ok(None) };
            let kind = header.entry_type();
            let size_bytes = header.entry_size()?;
            match kind {
                EntryType::GNULongName => {
                    extensions.path = Some(without_nul(self.read_extension(size_bytes)?));
                }
                EntryType::GNULongLink => {
                    extensions.link = Some(without_nul(self.read_extension(size_bytes)?));
                }
                EntryType::XHeader => extensions.read_pax(&self.read_extension(size_bytes)?)?,
                // It applies to all entries, and holds nothing that matters here.
                EntryType::XGlobalHeader => drop(self.read_extension(size_bytes)?),
                _ => return self.begin(&header, extensions).map(Some),
            }
        }
    }

    fn begin(&mut self, header: &Header, extensions: Extensions) -> io::Result<Entry> {
        let size_bytes = match extensions.size_bytes {
            Some(size_bytes) => size_bytes,
            None => header.entry_size()?,
        };
        let sparse = match header.entry_type() {
            EntryType::GNUSparse => Some(Sparse::read(header, size_bytes, &mut self.reader)?),
            _ => None,
        };
        self.expect(size_bytes)?;
        let link = header.link_name_bytes().map(|name| name.into_owned());
        let of_bytes = |bytes: Vec<u8>| PathBuf::from(OsStr::from_bytes(&bytes));
        Ok(Entry {
            kind: header.entry_type(),
            path: of_bytes(extensions.path.unwrap_or_else(|| header.path_bytes().into_owned())),
            link: of_bytes(extensions.link.or(link).unwrap_or_default()),
            // Links may have none; nothing is worse than a mode that permits nothing.
            mode: header.mode().unwrap_or_default(),
            size_bytes,
            sparse,
        })
    }

    fn expect(&mut self, size_bytes: u64) -> io::Result<()> {
        let whole = size_bytes.checked_next_multiple_of(BLOCK_BYTES);
        let whole = whole.ok_or_else(|| invalid("an entry's size is not a size"))?;
        (self.content_bytes, self.padding_bytes) = (size_bytes, whole - size_bytes);
        Ok(())
    }

    /// None at the end of the archive, which a block of zeros marks: bytes that stop between two
    /// entries are a part of an archive.
    fn read_header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        let mut filled = 0;
        while filled < header.as_bytes().len() {
            match self.reader.read(&mut header.as_mut_bytes()[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut summed = header.clone();
        summed.set_cksum();
        if summed.cksum()? != header.cksum()? {
            return Err(invalid("a header's checksum is wrong"));
        }
        Ok(Some(header))
    }

    fn read_extension(&mut self, size_bytes: u64) -> io::Result<Vec<u8>> {
        if size_bytes > MAX_EXTENSION_BYTES {
            return Err(invalid(format!(
                "a name or attribute has {size_bytes} bytes, more than the {MAX_EXTENSION_BYTES} \
                 that this node reads"
            )));
        }
        self.expect(size_bytes)?;
        let mut bytes = Vec::new();
        Read::by_ref(self).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        let rest = self.content_bytes.saturating_add(self.padding_bytes);
        let skipped = io::copy(&mut Read::by_ref(&mut self.reader).take(rest), &mut io::sink())?;
        if skipped < rest {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        (self.content_bytes, self.padding_bytes) = (0, 0);
        Ok(())
    }
}

/// Reads the content of the current entry; an archive that ends within it is an error.
impl<R: Read> Read for Entries<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.content_bytes == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let most = usize::try_from(self.content_bytes).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.reader.read(&mut buffer[..most])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.content_bytes -= read as u64;
        Ok(read)
    }
}

// === impl Extensions ===

impl Extensions {
    fn read_pax(&mut self, bytes: &[u8]) -> io::Result<()> {
        for record in PaxExtensions::new(bytes) {
            let record = record?;
            let value = record.value_bytes();
            match record.key_bytes() {
                b"path" => self.path = Some(value.to_owned()),
                b"linkpath" => self.link = Some(value.to_owned()),
                b"size" => {
                    let size = record.value().ok().and_then(|text| text.parse().ok());
                    self.size_bytes =
                        Some(size.ok_or_else(|| invalid("an entry's size is not a number"))?);
                }
                key if key.starts_with(b"GNU.sparse.") => {
                    return Err(invalid("it holds a sparse file, which this node does not unpack"));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// GNU tar ends names with a NUL.
fn without_nul(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last() == Some(&0) {
        bytes.pop();
    }
    bytes
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of entries, unless the archive is not whole.
    fn count(bytes: &[u8]) -> io::Result<usize> {
        let mut entries = Entries::new(bytes);
        let mut count = 0;
        while entries.advance()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    #[test]
    fn an_archive_that_ends_early_is_not_whole_wherever_it_is_cut() {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["a", "b"] {
            let mut header = Header::new_gnu();
            header.set_size(3);
            builder.append_data(&mut header, name, &b"abc"[..]).unwrap();
        }
        let whole = builder.into_inner().unwrap();
        assert_eq!(count(&whole).unwrap(), 2);
        let entries = whole.len() - 1024;
        for cut in 0..entries {
            assert!(count(&whole[..cut]).is_err(), "cut after {cut} bytes");
        }
        // One of the two blocks that should mark the end is enough.
        assert_eq!(count(&whole[..entries + 512]).unwrap(), 2);
    }
}
