//! The block device of a file system, by which the kernel accounts for what is written to it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the kernel lists block devices by their numbers.
const BLOCK_DEVICES: &str = "/sys/dev/block";

/// The device of a directory, and the whole disk that it is a part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Device {
    /// Identifies the file system.
    number: u64,
    /// `major:minor` of the device and of its disk; empty for a file system that is not on a block
    /// separate device, such as btrfs.
    names: Vec<String>,
}

// === impl Device ===

impl Device {
    pub(crate) fn containing(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;

        let number = fs::metadata(path)?.dev();
        let name = format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        Ok(Self { number, names: names(Path::new(BLOCK_DEVICES), &name) })
    }

    #[cfg(test)]
    pub(crate) fn named(names: &[&str]) -> Self {
        Self { number: 0, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.number == other.number
    }

    /// Whether bytes that the kernel counts for a device of this name may be on this file system.
    pub(crate) fn may_be(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|own| own == name)
    }
}

fn names(devices: &Path, name: &str) -> Vec<String> {
    let entry: PathBuf = devices.join(name);
    if !entry.exists() {
        return Vec::new();
    }
    let mut names = vec![name.to_owned()];
    if entry.join("partition").exists()
        && let Ok(entry) = fs::canonicalize(&entry)
        && let Some(disk) = entry.parent()
        && let Ok(disk) = fs::read_to_string(disk.join("dev"))
    {
        names.push(disk.trim().to_owned());
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_counted_with_its_disk() {
        let root = tempfile::tempdir().unwrap();
        let disk = root.path().join("devices/sda");
        fs::create_dir_all(disk.join("sda1")).unwrap();
        fs::write(disk.join("dev"), "8:0\n").unwrap();
        fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        for (name, target) in [("8:0", "devices/sda"), ("8:1", "devices/sda/sda1")] {
            std::os::unix::fs::symlink(target, root.path().join(name)).unwrap();
        }
        assert_eq!(names(root.path(), "8:1"), ["8:1", "8:0"]);
        assert_eq!(names(root.path(), "8:0"), ["8:0"]);
        assert!(names(root.path(), "0:42").is_empty());
        let anonymous = Device { number: 42, names: Vec::new() };
        assert!(anonymous.may_be("8:0"));
        let partition = Device { number: 1, names: names(root.path(), "8:1") };
        assert!(partition.may_be("8:0") && !partition.may_be("7:1"));
    }

    #[test]
    fn directories_of_one_file_system_have_the_same_device() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let [one, other] = [root.path(), &inner].map(|path| Device::containing(path).unwrap());
        assert!(one.is_same(&other));
        assert!(!one.is_same(&Device::containing(Path::new("/proc")).unwrap()));
    }
}
