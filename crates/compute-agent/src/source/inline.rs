//! Inputs that come with the job, as RFC 2397 data URLs.
//!
//! A tar, gzip'd or not, unpacks into a directory, which the task sees at Target. It is known by
//! its content type (`application/gzip`, `application/x-gzip`, `application/x-tar`) together with
//! what the bytes are.
//!
//! Anything else is a file. The task sees it at Target itself; or, when Target ends with `/`, in
//! the directory Target, under the name Alias, or `inline` when there is none.

use std::fs;
use std::io::Read;

use api_types::source::{InlineParams, InputSource};
use data_url::DataUrl;
use flate2::read::MultiGzDecoder;
use futures_util::future::{BoxFuture, FutureExt};

use super::place::{Place, Quota, make_readable};
use super::{Fetch, Source, params};
use crate::archive::{self, ArchiveError, Modes};
use crate::attempts::Setback;
use crate::disk::{self, is_full};
use crate::execution::Failure;
use crate::executor::MountedInput;

/// What an archive may grow to when it is unpacked. The job itself is at most 10 MB, so only one
/// that was made to do harm comes near it.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The name of a file in a Target that ends with `/`, without an Alias.
const DEFAULT_FILE_NAME: &str = "inline";

/// Where a tar says `ustar`.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

#[derive(Debug, Default)]
pub(crate) struct Inline;

/// What the bytes of a data URL are.
enum Content {
    Archive(Box<dyn Read>),
    File(Vec<u8>),
}

// === impl Inline ===

impl Source for Inline {
    fn admit(&self, input: &InputSource) -> Result<(), String> {
        let url = url(input)?;
        DataUrl::process(&url)
            .map(drop)
            .map_err(|_| "its URL is not a data URL, like 'data:text/plain,hello'".to_owned())?;
        Ok(())
    }

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, Setback>> {
        async move {
            let url = url(fetch.input).map_err(|reason| Setback::Lasting(Failure::task(reason)))?;
            let Fetch { place, quota, .. } = fetch;
            // Decoding and unpacking are work for the processor and the disk, not for the loop.
            tokio::task::spawn_blocking(move || write(&url, &place, &quota))
                .await
                .unwrap_or_else(|error| Err(Failure::node(format!("unpacking broke off: {error}"))))
                .map_err(Setback::Lasting)
        }
        .boxed()
    }
}

fn url(input: &InputSource) -> Result<String, String> {
    params::<InlineParams>(input).map(|params| params.url)
}

fn write(url: &str, place: &Place, quota: &Quota) -> Result<MountedInput, Failure> {
    let settled = |debit: Result<(), Setback>| match debit {
        Ok(()) => Ok(()),
        Err(Setback::Lasting(failure) | Setback::Passing(failure)) => Err(failure),
    };
    match decode(url).map_err(Failure::task)? {
        Content::Archive(reader) => {
            let limit_bytes = quota.left_bytes().min(MAX_UNPACKED_BYTES);
            let unpacked = archive::unpack(
                reader,
                &place.directory(),
                limit_bytes,
                Modes::Readable,
                quota.disk(),
            );
            let bytes = unpacked.map_err(|error| match error {
                ArchiveError::TooLarge { .. } if limit_bytes < MAX_UNPACKED_BYTES => {
                    quota.too_large()
                }
                ArchiveError::Io(error) if error.raw_os_error().is_some() || is_full(&error) => {
                    disk::failure(&error)
                }
                error => Failure::task(format!("its archive cannot be unpacked: {error}")),
            })?;
            settled(quota.count(bytes))?;
            Ok(place.mounted_directory())
        }
        Content::File(bytes) => {
            settled(quota.take(bytes.len() as u64))?;
            let name = place.file_name("", DEFAULT_FILE_NAME);
            let write = || {
                let file = place.make_file(&name)?;
                fs::write(&file, bytes)?;
                make_readable(&file)
            };
            write().map_err(|error| disk::failure(&error))?;
            Ok(place.mounted_file(&name))
        }
    }
}

fn decode(url: &str) -> Result<Content, String> {
    let data_url = DataUrl::process(url).map_err(|_| "its URL is not a data URL".to_owned())?;
    let mime = data_url.mime_type();
    let named_archive = mime.type_.eq_ignore_ascii_case("application")
        && ["gzip", "x-gzip", "x-tar"].iter().any(|known| mime.subtype.eq_ignore_ascii_case(known));
    let (bytes, _) = data_url
        .decode_to_vec()
        .map_err(|_| "the data of its URL is not valid base64".to_owned())?;
    if !named_archive {
        return Ok(Content::File(bytes));
    }
    if is_tar(&bytes) {
        return Ok(Content::Archive(Box::new(std::io::Cursor::new(bytes))));
    }
    let mut head = Vec::new();
    let unpacked =
        MultiGzDecoder::new(&bytes[..]).take(TAR_MAGIC.end as u64).read_to_end(&mut head);
    match unpacked {
        Ok(_) if is_tar(&head) => {
            Ok(Content::Archive(Box::new(MultiGzDecoder::new(std::io::Cursor::new(bytes)))))
        }
        // A file that is packed but no tar stays packed, as it was given.
        Ok(_) => Ok(Content::File(bytes)),
        Err(error) => Err(format!("its data is not what its content type says: {error}")),
    }
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(TAR_MAGIC) == Some(b"ustar")
}

#[cfg(test)]
mod tests;
