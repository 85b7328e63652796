//! Inputs inside the job, as RFC 2397 data URLs.
//!
//! A tar, compressed with gzip or not, unpacks into a directory, which the task sees at Target.
//! Both its content type (`application/gzip`, `application/x-gzip`, `application/x-tar`) and its
//! bytes must identify it as one.
//!
//! Anything else is a file. The task sees it at Target, or, when Target ends with `/`, in the
//! directory Target, named by Alias, or `inline` without one.

use std::fs;
use std::io::Read;

use agent_core::execution::Failure;
use api_types::source::{InlineParams, InputSource};
use data_url::DataUrl;
use flate2::read::MultiGzDecoder;
use futures_util::future::{BoxFuture, FutureExt};

use super::placement::{InputDestination, MountedInput, Quota, make_readable};
use super::source::{Fetch, Source, params};
use crate::data::archive::{self, ArchiveError, Modes};
use crate::data::retry::AttemptError;
use crate::host::disk::{self, is_full};

/// The unpacked size limit of an archive. The job itself is at most 10 MB, so only a malicious
/// archive comes near it.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// The file name in a Target that ends with `/`, without an Alias.
const DEFAULT_FILE_NAME: &str = "inline";

/// The position of `ustar` in a tar.
const TAR_MAGIC: std::ops::Range<usize> = 257..262;

#[derive(Debug, Default)]
pub(crate) struct Inline;

/// The kind of content of a data URL.
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

    fn fetch<'a>(&'a self, fetch: Fetch<'a>) -> BoxFuture<'a, Result<MountedInput, AttemptError>> {
        async move {
            let url = url(fetch.input)
                .map_err(|reason| AttemptError::Permanent(Failure::task(reason)))?;
            let Fetch { place, quota, .. } = fetch;
            // Decoding and unpacking use CPU and disk, so they leave the event loop.
            tokio::task::spawn_blocking(move || write(&url, &place, &quota))
                .await
                .unwrap_or_else(|error| Err(Failure::node(format!("unpacking failed: {error}"))))
                .map_err(AttemptError::Permanent)
        }
        .boxed()
    }
}

fn url(input: &InputSource) -> Result<String, String> {
    params::<InlineParams>(input).map(|params| params.url)
}

fn write(url: &str, place: &InputDestination, quota: &Quota) -> Result<MountedInput, Failure> {
    let settled = |debit: Result<(), AttemptError>| match debit {
        Ok(()) => Ok(()),
        Err(AttemptError::Permanent(failure) | AttemptError::Transient(failure)) => Err(failure),
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
            let unpacked = unpacked.map_err(|error| match error {
                ArchiveError::TooLarge { .. } if limit_bytes < MAX_UNPACKED_BYTES => {
                    quota.too_large()
                }
                ArchiveError::Io(error) if error.raw_os_error().is_some() || is_full(&error) => {
                    disk::failure(&error)
                }
                error => Failure::task(format!("cannot unpack its archive: {error}")),
            })?;
            settled(quota.count(unpacked.bytes))?;
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

/// Whether its content says that it is an archive.
pub(super) fn may_be_archive(input: &InputSource) -> bool {
    let Ok(url) = url(input) else { return false };
    DataUrl::process(&url).is_ok_and(|data_url| says_archive(&data_url))
}

fn says_archive(data_url: &DataUrl<'_>) -> bool {
    let mime = data_url.mime_type();
    mime.type_.eq_ignore_ascii_case("application")
        && ["gzip", "x-gzip", "x-tar"].iter().any(|known| mime.subtype.eq_ignore_ascii_case(known))
}

fn decode(url: &str) -> Result<Content, String> {
    let data_url = DataUrl::process(url).map_err(|_| "its URL is not a data URL".to_owned())?;
    let named_archive = says_archive(&data_url);
    let (bytes, _) =
        data_url.decode_to_vec().map_err(|_| "its URL does not hold valid base64".to_owned())?;
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
        // A compressed file that is not a tar stays compressed.
        Ok(_) => Ok(Content::File(bytes)),
        Err(error) => Err(format!("its data is not what its content type says: {error}")),
    }
}

fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(TAR_MAGIC) == Some(b"ustar")
}

#[cfg(test)]
mod tests;
