//! A local directory that is sent with the job: a tar, compressed with gzip, which nodes unpack.
//!
//! The archive depends on nothing but names, modes and contents, so the same directory makes the
//! same job. What means nothing on another machine is left out, and the caller says so.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use api_types::quantity::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};
use unpack::RelativePath;

use crate::exit::UsageError;
use crate::output::printable;

/// Entries of one directory: nodes unpack no more.
const MAX_ENTRIES: usize = 100_000;

/// What nodes unpack at most, by the size of the files.
const MAX_UNPACKED_BYTES: u64 = 1 << 30;

/// Bits of a file's mode that mean something for another user on another machine.
const MODE: u32 = 0o777;

/// A directory as an archive.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) archive: Vec<u8>,
    /// What is not in it, and why.
    pub(super) left_out: Vec<String>,
}

/// What a directory contains, in order of its names, each directory before what is in it.
#[derive(Debug, Default)]
struct Contents {
    entries: Vec<(PathBuf, Metadata)>,
    files: usize,
    bytes: u64,
    left_out: Vec<String>,
}

/// Keeps what is written up to a limit, and counts the rest.
#[derive(Debug)]
struct Bounded {
    bytes: Vec<u8>,
    limit: usize,
    is_over: bool,
}

/// Packs the directory into an archive of at most this many bytes.
pub(super) fn directory(path: &Path, limit: usize) -> Result<Packed> {
    let contents = Contents::of(path)?;
    let too_large = || {
        let (files, bytes) = (contents.files, Bytes(contents.bytes));
        let what = if files == 1 { "file" } else { "files" };
        let limit = Bytes(limit as u64);
        UsageError::new(format!("its {files} {what} of {bytes} are more than {limit} when packed"))
            .with_hint(
                "send only the part that the task needs, or store it where nodes can fetch it, such \
                 as s3:// or https://",
            )
    };
    if contents.bytes > MAX_UNPACKED_BYTES {
        return Err(too_large().into());
    }
    let output = Bounded { bytes: Vec::new(), limit, is_over: false };
    let mut builder = Builder::new(GzEncoder::new(output, Compression::default()));
    // Even an empty directory is one.
    builder.append(&root()?, io::empty()).context("pack the directory")?;
    for (name, metadata) in &contents.entries {
        append(&mut builder, path, name, metadata)
            .with_context(|| format!("pack {}", shown(name)))?;
        if builder.get_ref().get_ref().is_over {
            return Err(too_large().into());
        }
    }
    let packed = builder.into_inner().and_then(GzEncoder::finish).context("pack the directory")?;
    if packed.is_over {
        return Err(too_large().into());
    }
    Ok(Packed { archive: packed.bytes, left_out: contents.left_out })
}

fn append(
    builder: &mut Builder<impl Write>,
    directory: &Path,
    name: &Path,
    metadata: &Metadata,
) -> Result<()> {
    let path = directory.join(name);
    let mut header = Header::new_gnu();
    header.set_mode(metadata.permissions().mode() & MODE);
    header.set_size(0);
    if metadata.is_dir() {
        header.set_entry_type(EntryType::Directory);
        return Ok(builder.append_data(&mut header, name, io::empty())?);
    }
    if metadata.is_symlink() {
        header.set_entry_type(EntryType::Symlink);
        let target = std::fs::read_link(&path).map_err(usage)?;
        return Ok(builder.append_link(&mut header, name, target)?);
    }
    let size = metadata.len();
    header.set_size(size);
    let mut content = File::open(&path).map_err(usage)?.take(size);
    builder.append_data(&mut header, name, &mut content)?;
    if content.limit() > 0 {
        return Err(UsageError::new("it became shorter while it was read").into());
    }
    Ok(())
}

/// The entry of the directory itself, for which the library has no name.
fn root() -> Result<Header> {
    let mut header = Header::new_gnu();
    header.as_gnu_mut().context("a header of GNU tar")?.name[..2].copy_from_slice(b"./");
    header.set_entry_type(EntryType::Directory);
    header.set_mode(0o755);
    header.set_size(0);
    header.set_cksum();
    Ok(header)
}

fn usage(error: io::Error) -> anyhow::Error {
    UsageError::new(error.to_string()).into()
}

fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

// === impl Contents ===

impl Contents {
    fn of(directory: &Path) -> Result<Self> {
        let mut contents = Self::default();
        contents.add_all(directory, Path::new(""))?;
        // A directory comes before what is in it.
        contents.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(contents)
    }

    fn add_all(&mut self, directory: &Path, below: &Path) -> Result<()> {
        let mut folders = vec![below.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = std::fs::read_dir(directory.join(&folder)).map_err(usage);
            let entries = entries.with_context(|| format!("read the directory {}", shown(&folder)));
            for entry in entries? {
                let entry = entry.map_err(usage)?;
                let name = folder.join(entry.file_name());
                let found = entry.metadata().map_err(usage);
                let metadata = found.with_context(|| format!("read {}", shown(&name)))?;
                if metadata.is_dir() {
                    folders.push(name.clone());
                }
                self.add(directory, name, metadata)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, directory: &Path, name: PathBuf, metadata: Metadata) -> Result<()> {
        let path = RelativePath::new(&name)
            .map_err(|reason| UsageError::new(format!("{} {reason}", shown(&name))))?;
        if let Some(why) = why_left_out(directory, &path, &metadata)? {
            self.left_out.push(format!("{} ({why})", shown(&name)));
            return Ok(());
        }
        if self.entries.len() == MAX_ENTRIES {
            let reason = format!("it has more than {MAX_ENTRIES} entries");
            return Err(UsageError::new(reason)
                .with_hint("pack it as .tar.gz and store it where nodes can fetch it")
                .into());
        }
        if metadata.is_file() {
            self.files += 1;
            self.bytes = self.bytes.saturating_add(metadata.len());
        }
        self.entries.push((name, metadata));
        Ok(())
    }
}

/// Why an entry is not sent; none for files, directories, and links that stay inside.
fn why_left_out(
    directory: &Path,
    path: &RelativePath,
    metadata: &Metadata,
) -> Result<Option<String>> {
    let kind = metadata.file_type();
    if kind.is_symlink() {
        let target = std::fs::read_link(directory.join(path.as_path())).map_err(usage)?;
        let leads_out = path.is_led_out_by(&target);
        return Ok(leads_out.then(|| format!("a link that leads out, to {}", shown(&target))));
    }
    Ok(match kind {
        kind if kind.is_file() || kind.is_dir() => None,
        kind if kind.is_socket() => Some("a socket".to_owned()),
        kind if kind.is_fifo() => Some("a named pipe".to_owned()),
        _ => Some("a device".to_owned()),
    })
}

// === impl Bounded ===

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_over |= self.bytes.len() + bytes.len() > self.limit;
        if !self.is_over {
            self.bytes.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use flate2::read::GzDecoder;
    use unpack::Entries;

    use super::*;

    const LIMIT: usize = 1 << 20;

    /// Each entry as `mode kind path -> link: content`.
    fn listed(archive: &[u8]) -> Vec<String> {
        let mut entries = Entries::new(GzDecoder::new(archive));
        let mut listed = Vec::new();
        while let Some(entry) = entries.advance().unwrap() {
            let (mode, path) = (entry.mode & MODE, entry.path.to_string_lossy().into_owned());
            listed.push(match entry.kind {
                EntryType::Directory => format!("{mode:o} d {path}"),
                EntryType::Symlink => format!("l {path} -> {}", entry.link.display()),
                _ => {
                    let mut content = String::new();
                    entries.read_to_string(&mut content).unwrap();
                    format!("{mode:o} f {path}: {content}")
                }
            });
        }
        listed
    }

    fn write(path: &Path, content: &str, mode: u32) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_directories_and_links_inside_are_packed_with_their_modes() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        for folder in ["b", "b/empty", "b.d"] {
            fs::create_dir(path.join(folder)).unwrap();
            fs::set_permissions(path.join(folder), Permissions::from_mode(0o750)).unwrap();
        }
        write(&path.join("run.sh"), "#!/bin/sh", 0o4755);
        write(&path.join("b/-odd \n name"), "odd", 0o600);
        write(&path.join(std::ffi::OsStr::from_bytes(b"no-\xff-utf8")), "", 0o644);
        symlink("../run.sh", path.join("b/link")).unwrap();
        let packed = directory(path, LIMIT).unwrap();
        assert_eq!(packed.left_out, Vec::<String>::new());
        let expected = [
            "755 d ./",
            "750 d b",
            "600 f b/-odd \n name: odd",
            "750 d b/empty",
            "l b/link -> ../run.sh",
            "750 d b.d",
            "644 f no-\u{fffd}-utf8: ",
            "755 f run.sh: #!/bin/sh",
        ];
        assert_eq!(listed(&packed.archive), expected);
        // The same directory makes the same job.
        assert_eq!(directory(path, LIMIT).unwrap().archive, packed.archive);
    }

    #[test]
    fn long_names_are_packed_too() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("d".repeat(200));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("f".repeat(255)), "x").unwrap();
        symlink("f".repeat(255), folder.join("link")).unwrap();
        let found = listed(&directory(root.path(), LIMIT).unwrap().archive);
        assert_eq!(found.len(), 4, "{found:?}");
        let link = format!("l {}/link -> {}", "d".repeat(200), "f".repeat(255));
        assert!(found.contains(&link), "{found:?}");
    }

    #[test]
    fn an_empty_directory_is_one() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(listed(&directory(root.path(), LIMIT).unwrap().archive), ["755 d ./"]);
    }

    #[test]
    fn what_means_nothing_elsewhere_is_left_out_and_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let _listener = UnixListener::bind(path.join("a.sock")).unwrap();
        symlink("/etc/passwd", path.join("absolute")).unwrap();
        symlink("../outside", path.join("out")).unwrap();
        let mut packed = directory(path, LIMIT).unwrap();
        packed.left_out.sort();
        let expected = [
            "a.sock (a socket)",
            "absolute (a link that leads out, to /etc/passwd)",
            "out (a link that leads out, to ../outside)",
        ];
        assert_eq!(packed.left_out, expected);
        assert_eq!(listed(&packed.archive), ["755 d ./"]);
    }

    #[test]
    fn a_directory_that_is_too_large_is_refused_with_its_size() {
        let root = tempfile::tempdir().unwrap();
        let mut seed = 1_u32;
        let noise: Vec<u8> = (0..200_000)
            .map(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed.to_be_bytes()[0]
            })
            .collect();
        fs::write(root.path().join("noise"), noise).unwrap();
        let refused = directory(root.path(), 100_000).unwrap_err();
        assert!(refused.is::<UsageError>());
        let message = refused.to_string();
        assert_eq!(message, "its 1 file of 200 kB are more than 100 kB when packed");
        // A hole is packed into little, and nodes would not unpack it.
        File::create(root.path().join("hole")).unwrap().set_len(2 << 30).unwrap();
        assert!(directory(root.path(), LIMIT).unwrap_err().is::<UsageError>());
    }
}
