//! Peers and inputs that want all the memory of the node that reads them.

use std::io::Write;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::response::IntoResponse;
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use futures_util::{StreamExt, stream};

use crate::Serving;

/// A body without end, after its beginning.
pub fn endless(head: &'static [u8], piece: &'static [u8]) -> Body {
    let piece = Bytes::from(piece.repeat(1 << 10));
    let pieces = stream::repeat_with(move || piece.clone());
    let all = stream::once(async move { Bytes::from_static(head) }).chain(pieces);
    Body::from_stream(all.map(Ok::<_, std::io::Error>))
}

/// A server whose repository `/r.git` has references without end.
pub async fn endless_references() -> Serving {
    let references = async || {
        let head = b"001e# service=git-upload-pack\n0000";
        let line = b"003f0123456789012345678901234567890123456789 refs/heads/abcdefg\n";
        let content_type = "application/x-git-upload-pack-advertisement";
        ([("content-type", content_type)], endless(head, line)).into_response()
    };
    Serving::start(Router::new().route("/r.git/info/refs", get(references))).await
}

/// An archive, as a data URL, whose only name has 4 GiB by its header, and begins with 64 MiB.
pub fn archive_of_a_long_name() -> String {
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(4 << 30);
    header.set_cksum();
    let mut archive = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    archive.write_all(header.as_bytes()).unwrap();
    let name = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        archive.write_all(&name).unwrap();
    }
    let text = BASE64_STANDARD.encode(archive.finish().unwrap());
    format!("data:application/gzip;base64,{text}")
}
