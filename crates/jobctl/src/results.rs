//! Downloads and unpacks published results.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use api_client::{Client, ClientError, Download};
use api_types::engine::PublisherType;
use api_types::execution::PublishedResult;
use api_types::quantity::Bytes;
use api_types::{Code, ExecutionId};
use flate2::read::GzDecoder;
use futures_util::StreamExt;
use serde_json::Value;
use tar::EntryType;
use unpack::{Beneath, Entries, Entry, RelativePath};

use crate::output::{Transfer, printable};

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
    (execution, url): (ExecutionId, &str),
    file: &mut File,
    max_bytes: u64,
    transfer: &Transfer,
) -> Result<()> {
    let failed = || format!("fetch the results of {execution}");
    let mut source = Source::Service(client, execution);
    let mut received = 0;
    let mut failures = 0;
    loop {
        let before = received;
        match resume(&source, file, &mut received, max_bytes, transfer).await? {
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
    max_bytes: u64,
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
                if *received > max_bytes {
                    bail!("the archive has more than {}; raise --max-bytes", Bytes(max_bytes));
                }
                transfer.at(*received, total);
            }
            Err(error) => return Ok(Err(error)),
        }
    }
    file.set_len(*received).context("write the result")?;
    Ok(Ok(()))
}

/// Entries of one archive: a node packs no more of a result.
const MAX_ENTRIES: usize = 200_000;

/// Bits of a file's mode that mean something for another user on another machine.
const MODE: u32 = 0o755;

/// Unpacks into the directory: never outside of it, in place of nothing that is there, and no more
/// than this many bytes. A node may lie about everything in its archive.
pub(crate) fn unpack(archive: File, into: &Path, max_bytes: u64) -> Result<()> {
    let mut archive = archive;
    archive.seek(SeekFrom::Start(0)).context("read the result")?;
    let mut files = Beneath::create(into)
        .with_context(|| format!("create the directory {}", into.display()))?;
    let mut entries = Entries::new(GzDecoder::new(archive));
    let (mut count, mut bytes) = (0, 0_u64);
    while let Some(entry) = entries.advance().context("read the result")? {
        count += 1;
        bytes = bytes.saturating_add(entry.size_bytes);
        if count > MAX_ENTRIES {
            bail!("the archive has more than {MAX_ENTRIES} entries");
        }
        if bytes > max_bytes {
            bail!(
                "the archive has more than {} when it is unpacked; raise --max-bytes, or keep it \
                 packed with --archive",
                Bytes(max_bytes)
            );
        }
        let name = printable(&entry.path.to_string_lossy());
        let path = RelativePath::new(&entry.path)
            .map_err(|reason| anyhow!("the archive has an entry '{name}' that {reason}"))?;
        write_entry(&mut files, &path, &entry, &mut entries)
            .with_context(|| format!("unpack {name}"))?;
    }
    Ok(())
}

fn write_entry(
    files: &mut Beneath,
    path: &RelativePath,
    entry: &Entry,
    content: &mut impl Read,
) -> Result<()> {
    match entry.kind {
        EntryType::Directory => drop(files.directory(path)?),
        EntryType::Regular | EntryType::Continuous => {
            let mut file = files.create_file(path)?;
            std::io::copy(content, &mut file)?;
            let mode = (entry.mode & MODE) | 0o600;
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        EntryType::Symlink => {
            if path.is_led_out_by(&entry.link) {
                bail!("it is a link that leads out of the result, to '{}'", shown(&entry.link));
            }
            files.create_link(path, &entry.link)?;
        }
        EntryType::Link => {
            let target = RelativePath::new(&entry.link).map_err(|reason| {
                anyhow!("it is a link to '{}' that {reason}", shown(&entry.link))
            })?;
            files.create_hard_link(path, &target)?;
        }
        // Devices and the like mean nothing here.
        _ => {}
    }
    Ok(())
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
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

    /// More than these archives have.
    const LIMIT: u64 = 1 << 20;

    /// An archive with one entry of this kind and name, which the library would refuse to add.
    fn archive_of(kind: EntryType, name: &str, link: &str, size_bytes: u64) -> File {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_link_name_literal(link).unwrap();
        header.set_size(size_bytes);
        header.set_mode(0o4755);
        header.set_cksum();
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        builder.append(&header, std::io::repeat(b'x').take(size_bytes)).unwrap();
        builder.into_inner().unwrap().finish().unwrap()
    }

    fn archive(name: &str) -> File {
        archive_of(EntryType::Regular, name, "", 2)
    }

    #[test]
    fn unpacking_stays_inside_the_directory_and_replaces_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let into = directory.path().join("into");
        unpack(archive("stdout"), &into, LIMIT).unwrap();
        assert_eq!(std::fs::read_to_string(into.join("stdout")).unwrap(), "xx");
        let mode = std::fs::metadata(into.join("stdout")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "no right of its owner's comes along");
        assert!(unpack(archive("../stdout"), &into, LIMIT).is_err());
        assert!(!directory.path().join("stdout").exists());
    }

    #[test]
    fn links_stay_inside() {
        let directory = tempfile::tempdir().unwrap();
        for (target, is_inside) in
            [("/etc/passwd", false), ("../../x", false), ("../x", true), ("y/../x", false)]
        {
            let link = archive_of(EntryType::Symlink, "a/link", target, 0);
            let unpacked = unpack(link, &directory.path().join(target.replace('/', "_")), LIMIT);
            assert_eq!(unpacked.is_ok(), is_inside, "{target}");
        }
    }

    #[test]
    fn an_archive_that_explodes_is_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let refused =
            unpack(archive_of(EntryType::Regular, "a", "", LIMIT + 1), directory.path(), LIMIT);
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("raise --max-bytes"), "{refused}");
        let name = archive_of(EntryType::GNULongName, "n", "", 100 << 10);
        let refused = format!("{:#}", unpack(name, directory.path(), LIMIT).unwrap_err());
        assert!(refused.contains("more than the 65536"), "{refused}");
    }
}
