//! Metrics of the process, under the names that are standard for Prometheus clients.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::registry::{Registry, Unit};
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::measures::{number, quantity, sample};

/// Time since the Unix epoch at the first use.
static STARTED: LazyLock<Duration> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "reported only; no decision depends on it")]
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
});

/// Reads the current values; omits those that the system does not provide.
pub(super) fn registry() -> Registry {
    let mut registry = Registry::with_prefix("process");
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let cpu = sample(cpu.tv_sec.unsigned_abs()) + sample(cpu.tv_nsec.unsigned_abs()) / 1e9;
    let cpu_help = "User and system CPU time of this process";
    registry.register_with_unit("cpu", cpu_help, Unit::Seconds, ConstCounter::new(cpu));
    let started = STARTED.as_secs_f64();
    let started_help = "Start time of this process, in seconds since the Unix epoch";
    quantity(&mut registry, "start_time", started_help, Unit::Seconds, started);
    if let Some(bytes) = resident_bytes() {
        let help = "Resident memory of this process";
        quantity(&mut registry, "resident_memory", help, Unit::Bytes, sample(bytes));
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // Listing the directory uses one descriptor.
        let open = files.count().saturating_sub(1) as u64;
        number(&mut registry, "open_fds", "Open file descriptors", sample(open));
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        number(&mut registry, "max_fds", "Limit of open file descriptors", sample(most));
    }
    registry
}

/// Records the start time; a daemon calls it first.
pub(crate) fn note_start() {
    LazyLock::force(&STARTED);
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use crate::metrics::Exposition;

    #[test]
    fn a_process_reports_its_resource_usage() {
        let text = Exposition::Text.render(&[]).unwrap();
        let value = |name: &str| -> f64 {
            let sample = text.lines().find_map(|line| line.strip_prefix(name));
            sample.unwrap_or_else(|| panic!("no {name}: {text}")).trim().parse().unwrap()
        };
        assert!(value("process_cpu_seconds_total ") > 0.0);
        assert!(value("process_resident_memory_bytes ") > 100_000.0);
        assert!((3.0..1e6).contains(&value("process_open_fds ")));
        assert!(value("process_max_fds ") >= value("process_open_fds "));
        // 2020 to 2100.
        assert!((1.5e9..4.2e9).contains(&value("process_start_time_seconds ")));
    }
}
