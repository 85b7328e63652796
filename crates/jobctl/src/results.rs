//! Downloads and unpacks published results.

use std::fs::{File, Permissions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use api_client::{Client, ClientError};
use api_types::engine::PublisherType;
use api_types::execution::{Execution, PublishedResult};
use api_types::node::Connection;
use api_types::quantity::Bytes;
use api_types::{Code, ExecutionId, Timestamp};
use flate2::read::GzDecoder;
use futures_util::StreamExt;
use rustix::fs::{Mode, fchmod};
use serde_json::Value;
use tar::EntryType;
use unpack::{Beneath, Entries, Entry, RelativePath};

use crate::clock;
use crate::output::{Transfer, printable, short_time};
use crate::session::{Session, name_of};

/// Consecutive attempts without progress before a download fails.
const ATTEMPTS: u32 = 5;

/// Delay before a download is resumed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The location of a result.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// The service relays the archive from its node.
    Service,
    /// Another service with its own download tool.
    External { address: String, hint: String },
}

/// The location of a result; `None` when nothing was published.
pub(crate) fn location(result: &PublishedResult) -> Option<Location> {
    let param =
        |name: &str| result.params.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match result.publisher_type {
        PublisherType::None | PublisherType::Noop => None,
        PublisherType::Local => Some(Location::Service),
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

/// Which results the service cannot relay now since their nodes are silent or gone, and where they
/// are, in words. All nodes are asked at the same time.
pub(crate) async fn missing(
    session: &Session,
    executions: &[Execution],
) -> Vec<(ExecutionId, String)> {
    let relayed = || {
        let is_relayed = |execution: &&Execution| {
            location(&execution.published_result) == Some(Location::Service)
        };
        executions.iter().filter(is_relayed)
    };
    let nodes = session.known_nodes(relayed().map(|execution| execution.node_id)).await;
    let now = clock::now();
    let missing = |execution: &Execution| {
        let what = format!("the results of {} are on", execution.name);
        match nodes.get(&execution.node_id)? {
            None => Some(format!("{what} {}, which has been deleted", execution.node_id.short())),
            Some(node) if node.connection == Connection::Disconnected => {
                let silence = match Timestamp::parse(&node.last_heartbeat) {
                    Some(last) => format!("silent for {}", short_time(now.since(last))),
                    None => "which is silent".to_owned(),
                };
                Some(format!("{what} {}, {silence}", name_of(node)))
            }
            Some(_) => None,
        }
    };
    relayed().filter_map(|execution| Some((execution.id, missing(execution)?))).collect()
}

/// Downloads what the execution published through the service, resuming after interruptions. No node
/// is contacted: it could send this program anywhere.
pub(crate) async fn fetch(
    client: &Client,
    execution: ExecutionId,
    file: &mut File,
    max_bytes: u64,
    transfer: &Transfer,
) -> Result<()> {
    let mut received = 0;
    let mut failures = 0;
    loop {
        let before = received;
        match resume(client, execution, file, &mut received, max_bytes, transfer).await? {
            Ok(()) => return Ok(()),
            Err(error) => {
                failures = if received > before { 0 } else { failures + 1 };
                // The service has waited for the node already.
                let is_away = error.code() == Some(Code::NodeUnavailable) && failures > 0;
                if !error.is_transient() || is_away || failures == ATTEMPTS {
                    return Err(error.into());
                }
                tokio::time::sleep(RETRY_DELAY).await;
            }
        }
    }
}

/// Continues at offset `received` until the end or the next interruption.
async fn resume(
    client: &Client,
    execution: ExecutionId,
    file: &mut File,
    received: &mut u64,
    max_bytes: u64,
    transfer: &Transfer,
) -> Result<Result<(), ClientError>> {
    let mut download = match client.execution_results(execution, *received).await {
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
const MODE: u32 = 0o777;

/// Unpacks into the directory: never outside of it, in place of nothing that is there, and no more
/// than this many bytes. A node may lie about everything in its archive.
pub(crate) fn unpack(archive: File, into: &Path, max_bytes: u64) -> Result<()> {
    let mut archive = archive;
    archive.seek(SeekFrom::Start(0)).context("read the result")?;
    let mut files = Beneath::create(into)
        .with_context(|| format!("create the directory {}", into.display()))?;
    let mut entries = Entries::new(GzDecoder::new(archive));
    let (mut count, mut bytes) = (0, 0_u64);
    let mut directories = Vec::new();
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
        if entry.kind == EntryType::Directory {
            directories.push((path, name, entry.mode));
        }
    }
    // Last: a directory may not be writable. What is inside comes before what it is in.
    for (path, name, mode) in directories.into_iter().rev() {
        let mode = Mode::from_raw_mode((mode & MODE) | 0o700);
        let set = files.directory(&path).and_then(|directory| Ok(fchmod(directory, mode)?));
        set.with_context(|| format!("set the mode of {name}"))?;
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
        EntryType::GNUSparse => {
            let mut file = files.create_file(path)?;
            if let Some(sparse) = &entry.sparse {
                sparse.fill(&mut file, content)?;
            }
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
        let url = json!({ "URL": "http://elsewhere/x.tar.gz" });
        let local = location(&result(PublisherType::Local, url));
        assert_eq!(local, Some(Location::Service));
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
        assert_eq!(mode & 0o7777, 0o755, "the owner's special rights do not come along");
        assert!(unpack(archive("../stdout"), &into, LIMIT).is_err());
        assert!(!directory.path().join("stdout").exists());
    }

    #[test]
    fn modes_are_kept_even_of_directories_that_nobody_can_write_to() {
        let directory = tempfile::tempdir().unwrap();
        let mut builder =
            tar::Builder::new(GzEncoder::new(tempfile::tempfile().unwrap(), Compression::fast()));
        for (kind, path, mode) in [
            (EntryType::Directory, "a", 0o2550),
            (EntryType::Directory, "a/b", 0o711),
            (EntryType::Regular, "a/b/run", 0o4751),
        ] {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(mode);
            header.set_size(0);
            builder.append_data(&mut header, path, std::io::empty()).unwrap();
        }
        let archive = builder.into_inner().unwrap().finish().unwrap();
        unpack(archive, &directory.path().join("into"), LIMIT).unwrap();
        let mode = |path: &str| {
            let found = std::fs::metadata(directory.path().join("into").join(path)).unwrap();
            found.permissions().mode() & 0o7777
        };
        assert_eq!([mode("a"), mode("a/b"), mode("a/b/run")], [0o750, 0o711, 0o751]);
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
