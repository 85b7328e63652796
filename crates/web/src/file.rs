//! One file of the pages: its type, its bytes in each encoding, and their tag.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::HeaderValue;
use ring::digest;

/// Bytes of a file's digest in its tag.
const TAG_BYTES: usize = 16;

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) content_type: HeaderValue,
    pub(crate) plain: Bytes,
    /// Only if it is smaller.
    pub(crate) gzip: Option<Bytes>,
    /// The digest of `plain`.
    pub(crate) digest: String,
}

// === impl File ===

impl File {
    pub(crate) fn new(path: &str, plain: Bytes) -> Self {
        let digest = digest::digest(&digest::SHA256, &plain);
        let gzip = compress(&plain).filter(|gzip| gzip.len() < plain.len());
        let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
        // The test `every_file_has_a_type` keeps the fallback from being served.
        let content_type = content_type(extension).unwrap_or("application/octet-stream");
        Self {
            content_type: HeaderValue::from_static(content_type),
            plain,
            gzip,
            digest: hex(&digest.as_ref()[..TAG_BYTES]),
        }
    }
}

/// The types of the files that pages consist of.
pub(crate) fn content_type(extension: &str) -> Option<&'static str> {
    Some(match extension {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/vnd.microsoft.icon",
        "wasm" => "application/wasm",
        "woff2" => "font/woff2",
        _ => return None,
    })
}

fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to memory does not fail; if it did, the file would be served as it is.
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
