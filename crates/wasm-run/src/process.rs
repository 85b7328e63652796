//! Processes: their identity, since the kernel reuses a pid, but not a pid with its start time and
//! its boot; and what they use.

use std::fs;
use std::io;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;
use rustix::time::{ClockId, clock_gettime};

use crate::exit::Used;

/// Numbers of fields in proc_pid_stat(5).
const USER_TIME: usize = 14;
const SYSTEM_TIME: usize = 15;
const START_TIME: usize = 22;

/// The kernel's ID of the current boot.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Nanoseconds of CLOCK_BOOTTIME, which no one can set.
pub fn boot_nanos() -> u64 {
    let boot = clock_gettime(ClockId::Boottime);
    let since = Duration::new(boot.tv_sec.unsigned_abs(), boot.tv_nsec.try_into().unwrap_or(0));
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// When the process started, in clock ticks since the boot.
pub fn start_time(pid: u32) -> io::Result<u64> {
    stat_field(&fs::read_to_string(format!("/proc/{pid}/stat"))?, START_TIME)
}

/// The start time of the calling process.
pub fn own_start_time() -> io::Result<u64> {
    stat_field(&fs::read_to_string("/proc/self/stat")?, START_TIME)
}

/// What a process has used so far.
pub fn used(pid: u32) -> io::Result<Used> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = stat_field(&stat, USER_TIME)? + stat_field(&stat, SYSTEM_TIME)?;
    let cpu_nanos = ticks.saturating_mul(1_000_000_000 / clock_ticks_per_second().max(1));
    let memory = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(Used { cpu_nanos, ..parse_memory(&memory) })
}

/// What the calling process has used so far.
pub fn own_used() -> io::Result<Used> {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let nanos = Duration::new(used.tv_sec.unsigned_abs(), used.tv_nsec.try_into().unwrap_or(0));
    let memory = fs::read_to_string("/proc/self/status")?;
    let cpu_nanos = u64::try_from(nanos.as_nanos()).unwrap_or(u64::MAX);
    Ok(Used { cpu_nanos, ..parse_memory(&memory) })
}

/// From proc_pid_status(5). Pages of files are the code of the runner and of the program, which all
/// runs share. The kernel keeps no peak without them, but they hardly ever become fewer.
fn parse_memory(status: &str) -> Used {
    let bytes = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        let kilobytes = line.and_then(|line| line.split_ascii_whitespace().next());
        kilobytes.and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) << 10
    };
    let of_files = bytes("RssFile:");
    let memory_bytes = bytes("VmRSS:").saturating_sub(of_files);
    let memory_peak_bytes = bytes("VmHWM:").saturating_sub(of_files).max(memory_bytes);
    Used { cpu_nanos: 0, memory_bytes, memory_peak_bytes }
}

/// A field of proc_pid_stat(5), by its number. Field 2 is the name in parentheses, which may hold
/// anything.
fn stat_field(stat: &str, number: usize) -> io::Result<u64> {
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    after_name
        .and_then(|rest| rest.split_ascii_whitespace().nth(number - 3))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::other(format!("/proc/PID/stat has no field {number}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_mislead() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) R (b c) {}\n", fields.join(" "));
        assert_eq!(stat_field(&stat, START_TIME).unwrap(), 22);
        assert_eq!(stat_field(&stat, USER_TIME).unwrap(), 14);
        assert!(stat_field("7 (a) R", START_TIME).is_err());
    }

    #[test]
    fn this_process_has_one_start_time() {
        assert_eq!(own_start_time().unwrap(), start_time(std::process::id()).unwrap());
        assert!(!boot_id().unwrap().is_empty());
    }

    #[test]
    fn memory_is_counted_without_pages_of_files() {
        let status = "VmHWM:\t    5000 kB\nVmRSS:\t    4000 kB\nRssFile:\t    1000 kB\n";
        let used = parse_memory(status);
        assert_eq!((used.memory_bytes, used.memory_peak_bytes), (3000 << 10, 4000 << 10));
        // A zombie has no memory.
        assert_eq!(parse_memory("State:\tZ (zombie)\n"), Used::default());
    }

    #[test]
    fn this_process_uses_cpu_and_memory() {
        let begin = own_used().unwrap();
        let held = std::hint::black_box(vec![1_u8; 32 << 20]);
        while own_used().unwrap().cpu_nanos < begin.cpu_nanos + 50_000_000 {}
        let (own, seen) = (own_used().unwrap(), used(std::process::id()).unwrap());
        assert!(own.memory_bytes >= begin.memory_bytes + (30 << 20), "{begin:?} {own:?}");
        assert!(seen.memory_peak_bytes >= 30 << 20, "{seen:?}");
        assert!(own.cpu_nanos.abs_diff(seen.cpu_nanos) <= 30_000_000, "{own:?} {seen:?}");
        drop(held);
    }
}
