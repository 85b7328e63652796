//! Inputs that come with the job, as RFC 2397 data URLs.
//!
//! A tar, gzip'd or not, unpacks into a directory, which the task sees at Target. It is known by
//! its content type (`application/gzip`, `application/x-gzip`, `application/x-tar`) together with
//! what the bytes are.
//!
//! Anything else is a file. The task sees it at Target itself; or, when Target ends with `/`, in
//! the directory Target, under the name Alias, or `inline` when there is none.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use api_types::source::{InlineParams, InputSource};
use data_url::DataUrl;
use flate2::read::MultiGzDecoder;
use futures_util::future::{BoxFuture, FutureExt};

use super::Source;
use crate::archive;
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
        let alias = &input.alias;
        if alias.contains(['/', '\0']) || alias == "." || alias == ".." {
            return Err(format!("Alias '{alias}' is not a file name"));
        }
        Ok(())
    }

    fn fetch<'a>(
        &'a self,
        input: &'a InputSource,
        place: &'a Path,
    ) -> BoxFuture<'a, Result<MountedInput, Failure>> {
        let (input, place) = (input.clone(), place.to_owned());
        async move {
            // Decoding and unpacking are work for the processor and the disk, not for the loop.
            tokio::task::spawn_blocking(move || write(&input, &place))
                .await
                .unwrap_or_else(|error| Err(Failure::node(format!("unpacking broke off: {error}"))))
        }
        .boxed()
    }
}

fn url(input: &InputSource) -> Result<String, String> {
    serde_json::from_value::<InlineParams>(input.source.params.clone().into())
        .map(|params| params.url)
        .map_err(|error| format!("its Params cannot be read: {error}"))
}

fn write(input: &InputSource, place: &Path) -> Result<MountedInput, Failure> {
    let url = url(input).map_err(Failure::task)?;
    let on_disk = |error: std::io::Error| Failure::node(format!("it cannot be written: {error}"));
    match decode(&url).map_err(Failure::task)? {
        Content::Archive(reader) => {
            let directory = place.join("directory");
            archive::unpack(reader, &directory, MAX_UNPACKED_BYTES).map_err(|error| {
                Failure::task(format!("its archive cannot be unpacked: {error}"))
            })?;
            Ok(mounted(&directory, input.target.trim_end_matches('/')))
        }
        Content::File(bytes) => {
            let directory = place.join("directory");
            fs::create_dir(&directory).map_err(on_disk)?;
            let name = if input.alias.is_empty() { DEFAULT_FILE_NAME } else { &input.alias };
            let file = directory.join(name);
            fs::write(&file, bytes).map_err(on_disk)?;
            // The task's user is not the agent's.
            fs::set_permissions(&file, Permissions::from_mode(0o644)).map_err(on_disk)?;
            fs::set_permissions(&directory, Permissions::from_mode(0o755)).map_err(on_disk)?;
            Ok(match input.target.strip_suffix('/') {
                Some(target) => mounted(&directory, target),
                None => mounted(&file, &input.target),
            })
        }
    }
}

fn mounted(source: &Path, target: &str) -> MountedInput {
    MountedInput { source: source.to_owned(), target: target.to_owned() }
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
