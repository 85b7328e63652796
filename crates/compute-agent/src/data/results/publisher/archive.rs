//! The archive of a run: one gzip'd tar with its output, exit code and result paths.
//!
//! ```text
//! stdout   stderr   exitCode   <Name of a result path>/…
//! ```
//!
//! It goes through a file on the node's disk, not through memory: every publisher knows its length
//! and checksum before the first byte leaves, and a second attempt does not pack again. Owners and
//! directory order describe the node rather than the run; they are left out. Modes, times and
//! links are kept: a file with several names is packed once, however many there are.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use agent_core::execution::Failure;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use ring::digest::{Context, SHA256};
use tar::{Builder, EntryType, Header, HeaderMode};
use tracing::warn;

use super::publication::Publication;
use crate::host::data_dir::ExecutionDir;
use crate::host::disk::{self, Disk};

/// An archive on the node's disk.
#[derive(Debug, Clone)]
pub(crate) struct Archive {
    pub(crate) path: PathBuf,
    pub(crate) size_bytes: u64,
    /// Base64 of its SHA-256.
    pub(crate) checksum_sha256: String,
}

/// Counts and hashes the bytes on their way to the disk, while the disk has space.
struct Measured<W> {
    inner: W,
    disk: Disk,
    size_bytes: u64,
    digest: Context,
}

// === impl Archive ===

impl Archive {
    /// Packs the collected results of the run, and replaces the archive of an earlier attempt.
    pub(crate) async fn pack(run: &Publication<'_>, disk: &Disk) -> Result<Self, Failure> {
        let (dir, exit_code, disk) = (run.dir.clone(), run.exit_code, disk.clone());
        let names: Vec<String> =
            run.work.task.result_paths.iter().map(|result| result.name.clone()).collect();
        let packing = tokio::task::spawn_blocking(move || {
            pack(&dir, exit_code, &names, disk).inspect_err(|_| {
                // A partial archive is useless and takes space.
                let _ = fs::remove_file(dir.archive());
            })
        });
        let packed = packing.await.unwrap_or_else(|error| Err(io::Error::other(error)));
        packed.map_err(|error| {
            let failure = disk::failure(&error);
            Failure { message: format!("cannot build the archive: {failure}"), ..failure }
        })
    }

    /// Removes it, unless the publisher took it over.
    pub(crate) async fn remove(self) {
        match tokio::fs::remove_file(&self.path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                warn!(%error, path = %self.path.display(), "cannot remove an archive");
            }
            _ => {}
        }
    }
}

fn pack(dir: &ExecutionDir, exit_code: i32, names: &[String], disk: Disk) -> io::Result<Archive> {
    dir.create()?;
    let path = dir.archive();
    let file = BufWriter::new(File::create(&path)?);
    let measured = Measured { inner: file, disk, size_bytes: 0, digest: Context::new(&SHA256) };
    let mut tar = Builder::new(GzEncoder::new(measured, Compression::default()));
    add_output(&mut tar, "stdout", &dir.stdout())?;
    add_output(&mut tar, "stderr", &dir.stderr())?;
    let exit_code = exit_code.to_string();
    let mut header = plain_header(exit_code.len() as u64);
    tar.append_data(&mut header, "exitCode", exit_code.as_bytes())?;
    let mut tree = Tree { tar: &mut tar, names: HashMap::new() };
    for name in names {
        let directory = dir.results().join(name);
        // A path that the task did not create has no directory; the report has a note.
        if let Ok(metadata) = fs::symlink_metadata(&directory) {
            tree.add(Path::new(name), &directory, &metadata)?;
        }
    }
    let mut measured = tar.into_inner()?.finish()?;
    measured.flush()?;
    Ok(Archive {
        path,
        size_bytes: measured.size_bytes,
        checksum_sha256: BASE64_STANDARD.encode(measured.digest.finish()),
    })
}

/// A stream without output has no file; the archive gets an empty one.
fn add_output<W: Write>(tar: &mut Builder<W>, name: &str, file: &Path) -> io::Result<()> {
    match File::open(file) {
        Ok(file) => {
            let mut header = plain_header(file.metadata()?.len());
            tar.append_data(&mut header, name, file)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            tar.append_data(&mut plain_header(0), name, io::empty())
        }
        Err(error) => Err(error),
    }
}

fn plain_header(size_bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    // The current time would make the archive of another attempt differ.
    header.set_mtime(0);
    header.set_size(size_bytes);
    header
}

/// The unit of the space that a file takes.
const BLOCK_BYTES: u64 = 512;

/// Holes of this size stay holes in the archive. Smaller ones are zeros, which compress well and
/// which every program reads.
const LEAST_HOLES_BYTES: u64 = 64 << 20;

/// The result paths on their way into the archive.
struct Tree<'a, W: Write> {
    tar: &'a mut Builder<W>,
    /// The first name of each file that has several, by its device and inode.
    names: HashMap<(u64, u64), PathBuf>,
}

// === impl Tree ===

impl<W: Write> Tree<'_, W> {
    /// Goes as deep as the results were unpacked, which is bounded.
    fn add(&mut self, name: &Path, path: &Path, metadata: &Metadata) -> io::Result<()> {
        let mut header = Header::new_gnu();
        header.set_metadata_in_mode(metadata, HeaderMode::Complete);
        header.set_uid(0);
        header.set_gid(0);
        if metadata.is_symlink() {
            header.set_size(0);
            return self.tar.append_link(&mut header, name, fs::read_link(path)?);
        }
        if !metadata.is_dir() {
            return self.add_file(name, path, metadata, header);
        }
        self.tar.append_data(&mut header, name, io::empty())?;
        let mut entries = fs::read_dir(path)?.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            // Metadata of the entry itself: links are not followed.
            self.add(&name.join(entry.file_name()), &entry.path(), &entry.metadata()?)?;
        }
        Ok(())
    }

    fn add_file(
        &mut self,
        name: &Path,
        path: &Path,
        metadata: &Metadata,
        mut header: Header,
    ) -> io::Result<()> {
        if metadata.nlink() > 1 {
            let file = (metadata.dev(), metadata.ino());
            if let Some(first) = self.names.get(&file) {
                header.set_entry_type(EntryType::Link);
                header.set_size(0);
                return self.tar.append_link(&mut header, name, first);
            }
            self.names.insert(file, name.to_owned());
        }
        let mut file = File::open(path)?;
        let stored_bytes = metadata.blocks().saturating_mul(BLOCK_BYTES);
        if metadata.len().saturating_sub(stored_bytes) >= LEAST_HOLES_BYTES {
            // The header is the crate's, which alone writes where the holes are.
            return self.tar.append_file(name, &mut file);
        }
        self.tar.append_data(&mut header, name, file)
    }
}

// === impl Measured ===

impl<W: Write> Write for Measured<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.take(bytes.len() as u64)?;
        let written = self.inner.write(bytes)?;
        self.size_bytes += written as u64;
        self.digest.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use flate2::read::GzDecoder;

    use super::*;
    use crate::host::data_dir::DataDir;
    use crate::testing::{self, any_disk};

    #[test]
    fn a_file_with_many_names_is_packed_once() {
        const NAMES: usize = 100;
        const BYTES: usize = 1 << 20;
        let root = tempfile::tempdir().unwrap();
        let dir = DataDir::open(root.path())
            .unwrap()
            .executions()
            .for_execution(testing::execution_id(1));
        let results = dir.results();
        for result in ["one", "two"] {
            fs::create_dir_all(results.join(result)).unwrap();
        }
        fs::write(results.join("one/0"), vec![b'x'; BYTES]).unwrap();
        for number in 1..NAMES {
            let result = if number % 2 == 0 { "one" } else { "two" };
            let link = results.join(result).join(number.to_string());
            fs::hard_link(results.join("one/0"), link).unwrap();
        }
        let names = ["one", "two"].map(str::to_owned);
        let packed = pack(&dir, 0, &names, any_disk()).unwrap();

        let into = tempfile::tempdir().unwrap();
        let mut archive = tar::Archive::new(GzDecoder::new(File::open(&packed.path).unwrap()));
        let mut bytes = 0;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            bytes += entry.size();
            entry.unpack_in(into.path()).unwrap();
        }
        assert_eq!(bytes, (BYTES + "0".len()) as u64, "the file, and the exit code");
        for name in ["one/0", "one/98", "two/1", "two/99"] {
            assert_eq!(fs::metadata(into.path().join(name)).unwrap().len(), BYTES as u64, "{name}");
        }
    }
}
