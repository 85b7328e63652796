//! The control group of a container on this machine, whose counters the kernel keeps.
//!
//! The counters survive the agent, and cost some microseconds to read; the Engine's own statistics
//! are made from the same files. They are gone with the group, which the Engine removes some
//! milliseconds after the last process of the container has ended.
//!
//! The directory is found by the container's ID, in the places where the Engine's two cgroup
//! drivers put it. If the Engine has another cgroup parent, or runs on another machine, the agent
//! asks it for its statistics instead.

mod alarm;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Pid;
use tracing::debug;

pub(crate) use self::alarm::MemoryAlarm;
use super::device::Device;
use super::pidfd::Watched;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The controllers of version 1 that account for CPU time, by the names of their mounts.
const CPU_MOUNTS: [&str; 3] = ["cpu,cpuacct", "cpuacct", "cpuacct,cpu"];

/// What a task has used up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) cpu: Duration,
    /// In use now.
    pub(crate) memory_bytes: u64,
    /// The highest use so far; none where nothing keeps it.
    pub(crate) memory_peak_bytes: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ControlGroup {
    /// Version 2: one directory.
    Unified(PathBuf),
    /// Version 1: a directory for each controller.
    Split {
        cpu: PathBuf,
        memory: PathBuf,
        /// It may not exist.
        blkio: PathBuf,
    },
}

// === impl ControlGroup ===

impl ControlGroup {
    /// The group of a container that has started; none where this machine does not show it.
    pub(crate) fn of_container(container_id: &str) -> Option<Self> {
        Self::below(Path::new(ROOT), container_id)
    }

    fn below(root: &Path, container_id: &str) -> Option<Self> {
        // The ID comes from the Engine; in a path it may be a name and nothing else.
        if container_id.is_empty() || !container_id.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return None;
        }
        let places =
            [format!("docker/{container_id}"), format!("system.slice/docker-{container_id}.scope")];
        places.iter().find_map(|place| {
            let unified = root.join(place);
            if unified.join("cpu.stat").exists() {
                return Some(Self::Unified(unified));
            }
            let cpu = CPU_MOUNTS.iter().map(|mount| root.join(mount).join(place));
            let cpu = cpu.into_iter().find(|path| path.join("cpuacct.usage").exists())?;
            let memory = root.join("memory").join(place);
            let blkio = root.join("blkio").join(place);
            memory.exists().then_some(Self::Split { cpu, memory, blkio })
        })
    }

    pub(crate) fn read(&self) -> io::Result<Reading> {
        match self {
            Self::Unified(path) => {
                let micros = field(&path.join("cpu.stat"), "usage_usec")?;
                let used = number(&path.join("memory.current"))?;
                let cache = field(&path.join("memory.stat"), "inactive_file")?;
                Ok(Reading {
                    cpu: Duration::from_micros(micros),
                    memory_bytes: used.saturating_sub(cache),
                    // Kernels from 5.19 on.
                    memory_peak_bytes: number(&path.join("memory.peak")).ok(),
                })
            }
            Self::Split { cpu, memory, .. } => {
                let nanos = number(&cpu.join("cpuacct.usage"))?;
                let used = number(&memory.join("memory.usage_in_bytes"))?;
                let cache = field(&memory.join("memory.stat"), "total_inactive_file")?;
                Ok(Reading {
                    cpu: Duration::from_nanos(nanos),
                    memory_bytes: used.saturating_sub(cache),
                    memory_peak_bytes: number(&memory.join("memory.max_usage_in_bytes")).ok(),
                })
            }
        }
    }

    /// Bytes that processes of the group have written to a device so far.
    ///
    /// Version 1 counts only what they write directly or sync themselves: the kernel writes the rest
    /// later, and counts it for itself.
    pub(crate) fn written_bytes(&self, device: &Device) -> io::Result<u64> {
        let (path, of_line): (_, fn(&str) -> Option<u64>) = match self {
            Self::Unified(path) => (path.join("io.stat"), |line| {
                line.split(' ').find_map(|field| field.strip_prefix("wbytes=")?.parse().ok())
            }),
            Self::Split { blkio, .. } => {
                (blkio.join("blkio.throttle.io_service_bytes_recursive"), |line| {
                    line.trim().strip_prefix("Write ")?.parse().ok()
                })
            }
        };
        let text = fs::read_to_string(path)?;
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        let counted = lines.filter(|(name, _)| device.may_be(name));
        Ok(counted.filter_map(|(_, rest)| of_line(rest)).fold(0, u64::saturating_add))
    }

    /// Whether the kernel has killed a process of the group for its memory.
    pub(crate) fn was_out_of_memory(&self) -> bool {
        let kills = match self {
            Self::Unified(path) => field(&path.join("memory.events"), "oom_kill"),
            Self::Split { memory, .. } => field(&memory.join("memory.oom_control"), "oom_kill"),
        };
        kills.is_ok_and(|kills| kills > 0)
    }

    /// Tells after the end of the group whether it was out of memory; none where nothing does.
    pub(crate) fn memory_alarm(&self) -> Option<MemoryAlarm> {
        let Self::Split { memory, .. } = self else { return None };
        match MemoryAlarm::set(memory) {
            Ok(alarm) => Some(alarm),
            Err(error) => {
                debug!(group = %memory.display(), %error, "cannot watch the memory of a group");
                None
            }
        }
    }

    /// One process of the group, to wait for; none when all have ended.
    ///
    /// The lowest pid is usually the first process, with which all others end.
    pub(crate) fn process(&self) -> io::Result<Option<Watched>> {
        loop {
            let lowest = self.pids()?.into_iter().min_by_key(|pid| pid.as_raw_nonzero());
            let Some(pid) = lowest else { return Ok(None) };
            let Some(watched) = Watched::open(pid)? else { continue };
            // While it is open, no other process gets the same pid.
            if self.pids()?.contains(&pid) {
                return Ok(Some(watched));
            }
        }
    }

    fn pids(&self) -> io::Result<Vec<Pid>> {
        let (Self::Unified(path) | Self::Split { cpu: path, .. }) = self;
        let text = fs::read_to_string(path.join("cgroup.procs"))?;
        Ok(text.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)).collect())
    }
}

/// A file that holds one number.
fn number(path: &Path) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    text.trim().parse().map_err(|_| unexpected(path))
}

/// One line of a file of `name number` lines.
fn field(path: &Path, name: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.and_then(|value| value.parse().ok()).ok_or_else(|| unexpected(path))
}

fn unexpected(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no number", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn both_versions_and_both_drivers_are_read() {
        let stat = "anon 7\ninactive_file 1000\ntotal_inactive_file 1000\n";
        let peak = [
            ("system.slice/docker-abc.scope/cpu.stat", "usage_usec 1500000\nuser_usec 9\n"),
            ("system.slice/docker-abc.scope/memory.current", "5000\n"),
            ("system.slice/docker-abc.scope/memory.peak", "9000\n"),
            ("system.slice/docker-abc.scope/memory.stat", stat),
            ("system.slice/docker-abc.scope/memory.events", "oom 1\noom_kill 1\n"),
        ];
        let split = [
            ("cpuacct/docker/abc/cpuacct.usage", "1500000000\n"),
            ("memory/docker/abc/memory.usage_in_bytes", "5000\n"),
            ("memory/docker/abc/memory.max_usage_in_bytes", "9000\n"),
            ("memory/docker/abc/memory.stat", stat),
            ("memory/docker/abc/memory.oom_control", "under_oom 0\noom_kill 1\n"),
        ];
        for files in [peak, split] {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), &files);
            let group = ControlGroup::below(root.path(), "abc").unwrap();
            let expected = Reading {
                cpu: Duration::from_millis(1500),
                memory_bytes: 4000,
                memory_peak_bytes: Some(9000),
            };
            assert_eq!(group.read().unwrap(), expected);
            assert!(group.was_out_of_memory());
            assert_eq!(ControlGroup::below(root.path(), "abd"), None);
        }
    }

    #[test]
    fn what_a_group_has_written_to_a_device_is_read_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let of_v1 = "7:0 Read 9\n7:0 Write 100\n7:0 Sync 100\n8:0 Write 20\nTotal 129\n";
        let files = [
            ("docker/two/cpu.stat", "usage_usec 1\n"),
            ("docker/two/io.stat", "7:0 rbytes=9 wbytes=100 rios=1 wios=2\n8:0 wbytes=20\n"),
            ("cpuacct/docker/one/cpuacct.usage", "1\n"),
            ("memory/docker/one/memory.usage_in_bytes", "1\n"),
            ("blkio/docker/one/blkio.throttle.io_service_bytes_recursive", of_v1),
        ];
        write(root.path(), &files);
        for name in ["one", "two"] {
            let group = ControlGroup::below(root.path(), name).unwrap();
            let written = |names: &[&str]| group.written_bytes(&Device::named(names)).unwrap();
            assert_eq!(written(&["7:0"]), 100, "{name}");
            assert_eq!(written(&["8:1", "8:0"]), 20, "{name}");
            assert_eq!(written(&[]), 120, "{name}");
        }
    }

    #[test]
    fn a_kernel_without_the_peak_still_shows_the_rest() {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("docker/abc/cpu.stat", "usage_usec 1\n"),
            ("docker/abc/memory.current", "5000\n"),
            ("docker/abc/memory.stat", "inactive_file 0\n"),
        ];
        write(root.path(), &files);
        let reading = ControlGroup::below(root.path(), "abc").unwrap().read().unwrap();
        assert_eq!((reading.memory_bytes, reading.memory_peak_bytes), (5000, None));
    }

    #[test]
    fn an_id_is_a_name() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), &[("elsewhere/cpu.stat", "usage_usec 1\n")]);
        assert_eq!(ControlGroup::below(root.path(), "../elsewhere"), None);
        assert_eq!(ControlGroup::below(root.path(), ""), None);
    }
}
