//! Files and directories below one directory, under untrusted names.
//!
//! Every path is a [`RelativePath`], and every component is opened from the directory above it
//! without following links. So no name, and no link that an earlier entry created, leads out.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Deepest nesting that the agent creates or measures. People's trees have a few dozen levels;
/// whatever walks a tree may hold a descriptor for each.
pub const MAX_DEPTH: usize = 128;

/// Longest relative path: together with the directory that it lies in it must stay below the
/// kernel's limit of 4,096 bytes.
const MAX_PATH_BYTES: usize = 3_000;

/// Directories are readable for the task's user; files get their modes later.
const DIRECTORY_MODE: Mode = Mode::from_raw_mode(0o755);
const FILE_MODE: Mode = Mode::from_raw_mode(0o600);

/// Why a name is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadPath {
    #[error("leads out of its directory")]
    Escape,
    #[error(
        "is nested deeper than {MAX_DEPTH} directories, or its path has more than \
         {MAX_PATH_BYTES} bytes"
    )]
    TooDeep,
}

/// A path below a directory: plain names only, of bounded depth and length. It may be empty, and
/// is then the directory itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelativePath(PathBuf);

/// An open directory below which files are created.
#[derive(Debug)]
pub struct Beneath {
    root: OwnedFd,
    /// The directory that was used last, since many files in a row lie in the same one.
    last: Option<(PathBuf, OwnedFd)>,
}

// === impl RelativePath ===

impl RelativePath {
    pub fn new(path: &Path) -> Result<Self, BadPath> {
        let mut plain = PathBuf::new();
        let mut depth = 0;
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(name) => {
                    depth += 1;
                    plain.push(name);
                }
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(BadPath::Escape);
                }
            }
        }
        if depth > MAX_DEPTH || plain.as_os_str().len() > MAX_PATH_BYTES {
            return Err(BadPath::TooDeep);
        }
        Ok(Self(plain))
    }

    pub fn as_path(&self) -> &Path {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// Whether a symbolic link of this path leads out of the root, whatever the names on its way
    /// are: after a name, which may be a link itself, it is unknown where `..` leads.
    pub fn is_led_out_by(&self, target: &Path) -> bool {
        let mut depth = self.0.components().count().saturating_sub(1);
        let mut is_below_a_name = false;
        target.components().any(|part| match part {
            Component::CurDir => false,
            Component::Normal(_) => {
                is_below_a_name = true;
                false
            }
            Component::ParentDir if is_below_a_name || depth == 0 => true,
            Component::ParentDir => {
                depth -= 1;
                false
            }
            Component::RootDir | Component::Prefix(_) => true,
        })
    }

    /// The path of the directory, and the name in it; none for the directory itself.
    fn split(&self) -> Option<(&Path, &OsStr)> {
        Some((self.0.parent()?, self.0.file_name()?))
    }
}

// === impl Beneath ===

impl Beneath {
    /// Opens the directory; creates it if it does not exist.
    pub fn create(directory: &Path) -> io::Result<Self> {
        let is_new = !directory.exists();
        std::fs::create_dir_all(directory)?;
        let root = open_directory(CWD, directory.as_os_str())?;
        if is_new {
            // Whatever the umask.
            rustix::fs::fchmod(&root, DIRECTORY_MODE)?;
        }
        Ok(Self { root, last: None })
    }

    /// Opens a directory and creates what is missing on the way.
    pub fn directory(&mut self, path: &RelativePath) -> io::Result<BorrowedFd<'_>> {
        self.open_or_create(path.as_path())
    }

    fn open_or_create(&mut self, path: &Path) -> io::Result<BorrowedFd<'_>> {
        let is_last = self.last.as_ref().is_some_and(|(last, _)| last == path);
        if !is_last {
            let mut directory = self.root.try_clone()?;
            for name in path {
                let made = match rustix::fs::mkdirat(&directory, name, DIRECTORY_MODE) {
                    Ok(()) => true,
                    Err(Errno::EXIST) => false,
                    Err(error) => return Err(error.into()),
                };
                directory = open_directory(directory.as_fd(), name)?;
                if made {
                    rustix::fs::fchmod(&directory, DIRECTORY_MODE)?;
                }
            }
            self.last = Some((path.to_owned(), directory));
        }
        Ok(self.last.as_ref().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd()))
    }

    /// Creates an empty file for writing, in place of a file or link of the same name.
    pub fn create_file(&mut self, path: &RelativePath) -> io::Result<File> {
        let (directory, name) = self.place(path)?;
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(directory, name, flags, FILE_MODE)?.into())
    }

    /// Creates a symbolic link, whose target may be anything: nothing here follows it.
    pub fn create_link(&mut self, path: &RelativePath, target: &Path) -> io::Result<()> {
        let (directory, name) = self.place(path)?;
        Ok(rustix::fs::symlinkat(target, directory, name)?)
    }

    /// Gives a file that is below this directory a second name.
    pub fn create_hard_link(
        &mut self,
        path: &RelativePath,
        target: &RelativePath,
    ) -> io::Result<()> {
        let (parent, name) = target.split().ok_or(io::ErrorKind::InvalidInput)?;
        let existing = self.open_or_create(parent)?.try_clone_to_owned()?;
        let (directory, new) = self.place(path)?;
        Ok(rustix::fs::linkat(&existing, name, directory, new, AtFlags::empty())?)
    }

    /// Where a new entry goes, without what is there already.
    fn place<'a>(&'a mut self, path: &'a RelativePath) -> io::Result<(BorrowedFd<'a>, &'a OsStr)> {
        let (parent, name) = path.split().ok_or(io::ErrorKind::InvalidInput)?;
        let directory = self.open_or_create(parent)?;
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok((directory, name)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Opens a directory that is not a link.
pub fn open_directory(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn path(text: &str) -> RelativePath {
        RelativePath::new(Path::new(text)).unwrap()
    }

    #[test]
    fn paths_that_leave_or_go_too_deep_are_refused() {
        for text in ["/etc/passwd", "..", "a/../b", "../x"] {
            assert_eq!(RelativePath::new(Path::new(text)), Err(BadPath::Escape), "{text}");
        }
        let deep = "d/".repeat(MAX_DEPTH + 1);
        assert_eq!(RelativePath::new(Path::new(&deep)), Err(BadPath::TooDeep));
        let long = format!("{}/{}", "x".repeat(200), "y/".repeat(20)).repeat(20);
        assert_eq!(RelativePath::new(Path::new(&long)), Err(BadPath::TooDeep));
        assert_eq!(path("./a/./b").as_path(), Path::new("a/b"));
        assert!(path(".").is_empty());
    }

    #[test]
    fn a_link_leads_out_if_it_may() {
        for (target, leads_out) in [
            ("c", false),
            ("./c/d", false),
            ("..", false),
            ("../c", false),
            ("../..", true),
            ("/c", true),
            // With a link `c` to `.` they lead to the parent of the root.
            ("c/..", true),
            ("c/../d", true),
            ("../c/..", true),
        ] {
            assert_eq!(path("a/b").is_led_out_by(Path::new(target)), leads_out, "{target}");
        }
        assert!(path("b").is_led_out_by(Path::new("..")));
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let mut beneath = Beneath::create(&dir.path().join("into")).unwrap();
        beneath.create_link(&path("l"), &outside).unwrap();
        beneath.create_file(&path("l/x")).unwrap_err();
        beneath.directory(&path("l")).unwrap_err();
        // A file of the link's own name replaces the link.
        beneath.create_file(&path("l")).unwrap().write_all(b"text").unwrap();
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(dir.path().join("into/l")).unwrap(), "text");
    }
}
