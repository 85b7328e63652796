//! Checks whether anything of the last task is left in this network namespace.

use std::fs;
use std::os::unix::fs::MetadataExt;

use rustix::io::Errno;

/// The writable files that the Engine shares with every container of a network namespace.
pub(crate) const SHARED_FILES: [&str; 3] = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/// The kernel's socket tables of this namespace: a title line, then one line per socket, including
/// sockets without a process.
const SOCKET_TABLES: [&str; 12] = [
    "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "unix",
    "packet",
];

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

pub(crate) fn inspect(marks: &[Option<Mark>; SHARED_FILES.len()]) -> String {
    for (path, before) in SHARED_FILES.iter().zip(marks) {
        if mark(path) != *before {
            return format!("dirty {path}");
        }
    }
    for table in SOCKET_TABLES {
        // A kernel without the protocol has no table for it.
        let Ok(text) = fs::read_to_string(format!("/proc/self/net/{table}")) else { continue };
        if text.lines().nth(1).is_some() {
            return format!("busy {table}");
        }
    }
    "clean".to_owned()
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
