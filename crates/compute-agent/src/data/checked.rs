//! A reader that fails at the end if what it read is not what was promised.

use std::io::{self, Read};

use ring::digest::{Context, SHA256};

pub(super) struct Checked<R> {
    inner: R,
    digest: Option<Context>,
    /// The SHA-256 that the bytes should have.
    expected: Vec<u8>,
}

// === impl Checked ===

impl<R: Read> Checked<R> {
    /// Without a checksum, any bytes will do.
    pub(super) fn new(inner: R, expected: Option<Vec<u8>>) -> Self {
        let digest = expected.is_some().then(|| Context::new(&SHA256));
        Self { inner, digest, expected: expected.unwrap_or_default() }
    }
}

impl<R: Read> Read for Checked<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        if read > 0 || buffer.is_empty() {
            if let Some(digest) = &mut self.digest {
                digest.update(&buffer[..read]);
            }
            return Ok(read);
        }
        let found = self.digest.take().map(Context::finish);
        match found.is_none_or(|found| found.as_ref() == self.expected) {
            true => Ok(0),
            false => Err(io::Error::other("its SHA-256 is not that of the published archive")),
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::digest::digest;

    use super::*;

    #[test]
    fn other_bytes_than_expected_are_an_error_at_the_end() {
        let sum = digest(&SHA256, b"archive").as_ref().to_vec();
        let mut read = Vec::new();
        Checked::new(&b"archive"[..], Some(sum.clone())).read_to_end(&mut read).unwrap();
        Checked::new(&b"any"[..], None).read_to_end(&mut read).unwrap();
        assert_eq!(read, b"archiveany");
        let refused = Checked::new(&b"another"[..], Some(sum)).read_to_end(&mut read).unwrap_err();
        assert!(refused.to_string().contains("SHA-256"), "{refused}");
    }
}
