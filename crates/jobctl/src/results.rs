//! Downloads and unpacks published results.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use api_client::{Client, ClientError, Download};
use api_types::engine::PublisherType;
use api_types::execution::PublishedResult;
use api_types::{Code, ExecutionId};
use flate2::read::GzDecoder;
use futures_util::StreamExt;
use serde_json::Value;
use tar::Archive;

use crate::output::Transfer;

/// Consecutive attempts without progress before a download fails.
const ATTEMPTS: u32 = 5;

/// Delay before a download is resumed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The location of a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// The node serves the archive.
    Url(String),
    /// Another service with its own download tool.
    External { address: String, hint: String },
}

/// The location of a result; `None` when nothing was published.
pub(crate) fn location(result: &PublishedResult) -> Option<Location> {
    let param =
        |name: &str| result.params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match result.publisher_type {
        PublisherType::None | PublisherType::Noop => None,
        PublisherType::Local => Some(Location::Url(param("URL"))),
        PublisherType::S3 => {
            let address = format!("s3://{}/{}", param("Bucket"), param("Key"));
            let hint = format!("aws s3 cp {address} .");
            Some(Location::External { address, hint })
        }
        PublisherType::Ipfs => {
            let address = format!("ipfs://{}", param("CID"));
            let hint = format!("ipfs get {}", param("CID"));
            Some(Location::External { address, hint })
        }
    }
}

/// Who sends an archive.
enum Source<'a> {
    /// The service, which relays it from the node.
    Service(&'a Client, ExecutionId),
    /// The node itself.
    Node(Client),
}

/// Downloads what the execution published, resuming after interruptions: through the service, or, if
/// that has no way to the archive, from the node's own URL.
pub(crate) async fn fetch(
    client: &Client,
    execution: ExecutionId,
    url: &str,
    file: &mut File,
    transfer: &Transfer,
) -> Result<()> {
    let failed = || format!("fetch the results of {execution}");
    let mut source = Source::Service(client, execution);
    let mut received = 0;
    let mut failures = 0;
    loop {
        let before = received;
        match resume(&source, file, &mut received, transfer).await? {
            Ok(()) => return Ok(()),
            Err(error) => {
                let is_refused = matches!(source, Source::Service(..)) && is_no_way(&error);
                if is_refused && received == 0 {
                    source = Source::Node(Client::new(url).with_context(failed)?);
                    continue;
                }
                failures = if received > before { 0 } else { failures + 1 };
                if !error.is_transient() || failures == ATTEMPTS {
                    return Err(error).with_context(failed);
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// The service or the agent is of a release that relays no archives, or the node has disconnected.
fn is_no_way(error: &ClientError) -> bool {
    matches!(error.code(), Some(Code::NodeUnavailable | Code::PathNotFound))
}

impl Source<'_> {
    async fn open(&self, start: u64) -> Result<Download, ClientError> {
        match self {
            Self::Service(client, execution) => client.execution_results(execution, start).await,
            Self::Node(node) => node.download(start).await,
        }
    }
}

/// Continues at offset `received` until the end or the next interruption.
async fn resume(
    source: &Source<'_>,
    file: &mut File,
    received: &mut u64,
    transfer: &Transfer,
) -> Result<Result<(), ClientError>> {
    let mut download = match source.open(*received).await {
        Ok(download) => download,
        Err(error) => return Ok(Err(error)),
    };
    let total = download.rest.map(|rest| download.start + rest);
    *received = download.start;
    file.seek(SeekFrom::Start(*received)).context("write the result")?;
    while let Some(piece) = download.bytes.next().await {
        match piece {
            Ok(piece) => {
                file.write_all(&piece).context("write the result")?;
                *received += piece.len() as u64;
                transfer.at(*received, total);
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    file.set_len(*received).context("write the result")?;
    Ok(Ok(()))
}

/// Unpacks into the directory; never writes outside it, and never replaces a file.
pub(crate) fn unpack(archive: File, into: &Path) -> Result<()> {
    let mut archive = archive;
    archive.seek(SeekFrom::Start(0)).context("read the result")?;
    std::fs::create_dir_all(into)
        .with_context(|| format!("create the directory {}", into.display()))?;
    let mut archive = Archive::new(GzDecoder::new(archive));
    archive.set_overwrite(false);
    for entry in archive.entries().context("read the result")? {
        let mut entry = entry.context("read the result")?;
        let path = entry.path().map(|path| path.display().to_string()).unwrap_or_default();
        let inside = entry.unpack_in(into).with_context(|| format!("unpack {path}"))?;
        if !inside {
            bail!("the archive has an entry '{path}' outside of the target directory");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use api_types::engine::Params;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use serde_json::json;

    use super::*;

    fn result(publisher_type: PublisherType, params: Value) -> PublishedResult {
        let params: Params = serde_json::from_value(params).unwrap();
        PublishedResult { publisher_type, params }
    }

    #[test]
    fn every_publisher_has_a_location() {
        let url = json!({ "URL": "http://node/x.tar.gz" });
        let local = location(&result(PublisherType::Local, url));
        assert_eq!(local, Some(Location::Url("http://node/x.tar.gz".to_owned())));
        let s3 = location(&result(PublisherType::S3, json!({ "Bucket": "b", "Key": "k" })));
        assert!(matches!(s3, Some(Location::External { address, .. }) if address == "s3://b/k"));
        assert_eq!(location(&PublishedResult::default()), None);
    }

    /// An archive with one file of this name, which the library would refuse to add.
    fn archive(name: &str) -> File {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(2);
        header.set_mode(0o644);
        header.set_cksum();
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        builder.append(&header, &b"hi"[..]).unwrap();
        builder.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn unpacking_stays_inside_the_directory_and_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().join("into");
        unpack(archive("stdout"), &into).unwrap();
        assert_eq!(std::fs::read_to_string(into.join("stdout")).unwrap(), "hi");
        assert!(unpack(archive("stdout"), &into).is_err());
        assert!(unpack(archive("../stdout"), &into).is_err());
        assert!(!directory.path().join("stdout").exists());
    }
}
