//! Checks whether a task changed the files that the Engine shares with a network namespace.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

/// The writable files that the Engine shares with every container of a network namespace.
pub(crate) const SHARED_FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// Far more than the Engine writes to any of these files.
const MAX_BYTES: u64 = 64 << 10;

/// Far more than the names of the attributes that a system sets.
const MAX_ATTRIBUTE_BYTES: usize = 4096;

/// Everything that a task could change in a file, except its access and status-change times: the
/// Engine itself updates them whenever a container joins.
#[derive(Debug, PartialEq)]
pub(crate) struct Mark {
    content: Vec<u8>,
    attributes: Result<Vec<u8>, Errno>,
    inode: u64,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
}

pub(crate) type Marks = [Option<Mark>; SHARED_FILES.len()];

/// Which file is not what it was, if any.
pub(crate) fn changed(marks: &Marks) -> Option<&'static str> {
    let mut files = SHARED_FILES.into_iter().zip(marks);
    files.find(|(path, before)| mark(path) != **before).map(|(path, _)| path)
}

/// None when the file does not exist, or exceeds the limit.
pub(crate) fn mark(path: &str) -> Option<Mark> {
    let file = fs::metadata(path).ok()?;
    if file.len() > MAX_BYTES {
        return None;
    }
    Some(Mark {
        content: fs::read(path).ok()?,
        attributes: attributes(path),
        inode: file.ino(),
        mode: file.mode(),
        owner: (file.uid(), file.gid()),
        modified: (file.mtime(), file.mtime_nsec()),
    })
}

/// The names of a file's extended attributes.
fn attributes(path: &str) -> Result<Vec<u8>, Errno> {
    let mut names = vec![0_u8; MAX_ATTRIBUTE_BYTES];
    let length = rustix::fs::listxattr(path, &mut names[..])?;
    names.truncate(length);
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn every_change_of_a_file_changes_its_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        let marked = || mark(path.to_str().unwrap());
        assert_eq!(marked(), None);
        fs::write(&path, "127.0.0.1 localhost\n").unwrap();
        let before = marked();
        assert!(before.is_some());
        assert_eq!(marked(), before, "reading it changes nothing");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let private = marked();
        assert_ne!(private, before);
        fs::write(&path, "127.0.0.1 elsewhere\n").unwrap();
        assert_ne!(marked(), private);
        fs::write(&path, vec![0; 1 << 17]).unwrap();
        assert_eq!(marked(), None, "it cannot have been that large");
    }
}
