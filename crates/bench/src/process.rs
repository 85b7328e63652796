//! Memory and CPU time of a process.

use std::time::Duration;

use anyhow::Context;

/// Resident memory in bytes.
pub(super) fn resident_bytes(pid: u32) -> anyhow::Result<u64> {
    kilobytes(pid, "VmRSS:")
}

/// A line of `/proc/PID/status`, in bytes.
fn kilobytes(pid: u32, name: &'static str) -> anyhow::Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context(name)?;
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kilobytes * 1024)
}

/// Anonymous memory in bytes: what the process itself has written, without the pages of its program
/// that the kernel can drop at any time.
pub(super) fn anonymous_bytes(pid: u32) -> anyhow::Result<u64> {
    kilobytes(pid, "RssAnon:")
}

/// User and system CPU time since the start.
pub(super) fn cpu_time(pid: u32) -> anyhow::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain any characters; the fields follow it.
    let fields = stat.rsplit_once(')').context("no name")?.1;
    let mut fields = fields.split_whitespace().skip(11);
    let mut ticks = || anyhow::Ok(fields.next().context("ticks")?.parse::<u64>()?);
    let ticks = ticks()? + ticks()?;
    Ok(Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second()))
}
