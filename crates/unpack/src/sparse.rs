//! Files with holes, in the old format of GNU tar: where their content lies is in the header and in
//! blocks that follow it.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

/// Pieces of content of one file; with more, the file is refused.
const MAX_SEGMENTS: usize = 100_000;

/// A file with holes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sparse {
    /// With its holes.
    pub size_bytes: u64,
    /// In order, and apart from each other.
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    offset: u64,
    bytes: u64,
}

// === impl Sparse ===

impl Sparse {
    /// Reads what follows the header of such a file, whose content has this many bytes.
    pub(crate) fn read(
        header: &Header,
        content_bytes: u64,
        reader: &mut impl Read,
    ) -> io::Result<Self> {
        let header = header.as_gnu().ok_or_else(|| invalid("a sparse file has no GNU header"))?;
        let mut sparse = Self { size_bytes: header.real_size()?, segments: Vec::new() };
        sparse.add(&header.sparse)?;
        let mut is_extended = header.is_extended();
        while is_extended {
            let mut block = GnuExtSparseHeader::new();
            reader.read_exact(block.as_mut_bytes())?;
            sparse.add(block.sparse())?;
            is_extended = block.is_extended();
        }
        let sum: u64 = sparse.segments.iter().map(|segment| segment.bytes).sum();
        if sum != content_bytes {
            return Err(invalid("the pieces of a sparse file are not its content"));
        }
        Ok(sparse)
    }

    fn add(&mut self, headers: &[GnuSparseHeader]) -> io::Result<()> {
        for header in headers.iter().filter(|header| !header.is_empty()) {
            let segment = Segment { offset: header.offset()?, bytes: header.length()? };
            let after = self.segments.last().map_or(0, |last| last.offset + last.bytes);
            let end = segment.offset.checked_add(segment.bytes);
            if segment.offset < after || end.is_none_or(|end| end > self.size_bytes) {
                return Err(invalid("the pieces of a sparse file overlap, or leave it"));
            }
            if self.segments.len() == MAX_SEGMENTS {
                return Err(invalid(format!("a sparse file has more than {MAX_SEGMENTS} pieces")));
            }
            self.segments.push(segment);
        }
        Ok(())
    }

    /// Writes the content to an empty file, with holes in between.
    pub fn fill(&self, file: &mut File, content: &mut impl Read) -> io::Result<()> {
        file.set_len(self.size_bytes)?;
        for Segment { offset, bytes } in &self.segments {
            file.seek(SeekFrom::Start(*offset))?;
            let copied = io::copy(&mut Read::by_ref(content).take(*bytes), file)?;
            if copied < *bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

fn invalid(message: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;

    use crate::Entries;

    /// A file with this many pieces of content, each a mebibyte after the one before.
    fn archive_of(pieces: u64) -> (Vec<u8>, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        for piece in 0..pieces {
            file.seek(SeekFrom::Start(piece << 20)).unwrap();
            file.write_all(format!("piece {piece}").as_bytes()).unwrap();
        }
        file.set_len(pieces << 20).unwrap();
        file.rewind().unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        file.rewind().unwrap();
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_file("sparse", &mut file).unwrap();
        (builder.into_inner().unwrap(), content)
    }

    use super::*;

    #[test]
    fn holes_are_not_in_the_archive_and_are_holes_again() {
        // More than fit into the header, and into one block after it.
        for pieces in [1, 4, 5, 60] {
            let (archive, content) = archive_of(pieces);
            assert!(archive.len() < content.len() / 4, "{pieces}: {}", archive.len());
            let mut entries = Entries::new(&archive[..]);
            let entry = entries.advance().unwrap().unwrap();
            let sparse = entry.sparse.expect("it is sparse");
            assert_eq!(sparse.size_bytes, content.len() as u64);
            let mut file = tempfile::tempfile().unwrap();
            sparse.fill(&mut file, &mut entries).unwrap();
            let blocks = file.metadata().unwrap().blocks();
            assert!(blocks * 512 < sparse.size_bytes / 4, "{pieces}: {blocks} blocks");
            let mut found = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut found).unwrap();
            assert!(found == content, "{pieces}");
            assert!(entries.advance().unwrap().is_none());
        }
    }

    #[test]
    fn pieces_that_lie_are_refused() {
        let (archive, _) = archive_of(2);
        // The length of the first piece, and the real size, in the header.
        for (at, bytes) in [(386 + 12, &b"00000000777"[..]), (483, b"00000000001")] {
            let mut altered = archive.clone();
            altered[at..at + bytes.len()].copy_from_slice(bytes);
            let mut header = Header::new_old();
            header.as_mut_bytes().copy_from_slice(&altered[..512]);
            header.set_cksum();
            altered[..512].copy_from_slice(header.as_bytes());
            assert!(Entries::new(&altered[..]).advance().is_err(), "{at}");
        }
    }
}
