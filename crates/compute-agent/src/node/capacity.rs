//! The capacity of this machine: detected, unless the settings replace it.

use std::io;
use std::path::Path;

use api_types::quantity::Resources;

use crate::host::settings::CapacitySettings;

/// The whole capacity of the node, given its number of GPUs; disk is the free space of the data
/// directory's file system.
pub(crate) fn of_this_machine(
    settings: &CapacitySettings,
    data_dir: &Path,
    gpus: u64,
) -> io::Result<Resources> {
    Ok(Resources {
        cpu_millis: match settings.cpu {
            Some(cpu_millis) => cpu_millis,
            None => std::thread::available_parallelism()?.get() as u64 * 1000,
        },
        memory_bytes: match settings.memory {
            Some(memory_bytes) => memory_bytes,
            None => memory_of_this_machine()?,
        },
        disk_bytes: match settings.disk {
            Some(disk_bytes) => disk_bytes,
            None => {
                let stat = rustix::fs::statvfs(data_dir)?;
                stat.f_bavail.saturating_mul(stat.f_frsize)
            }
        },
        gpus: settings.gpu.unwrap_or(gpus),
    })
}

fn memory_of_this_machine() -> io::Result<u64> {
    const PATH: &str = "/proc/meminfo";
    let text = std::fs::read_to_string(PATH)?;
    total_memory(&text).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, format!("{PATH} has no MemTotal"))
    })
}

/// `MemTotal` of `/proc/meminfo`, in bytes.
fn total_memory(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_memory_is_read_in_bytes() {
        assert_eq!(total_memory("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 * 1024));
        assert_eq!(total_memory("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn settings_take_precedence_over_detection() {
        let settings = CapacitySettings { cpu: Some(1500), gpu: Some(2), ..Default::default() };
        let capacity = of_this_machine(&settings, Path::new("/"), 4).unwrap();
        assert_eq!((capacity.cpu_millis, capacity.gpus), (1500, 2));
        let detected = of_this_machine(&CapacitySettings::default(), Path::new("/"), 4).unwrap();
        assert_eq!(detected.gpus, 4);
        assert!(capacity.memory_bytes > 1 << 20 && capacity.disk_bytes > 0, "{capacity:?}");
    }
}
