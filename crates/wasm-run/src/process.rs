//! Process identity: the kernel reuses a pid, but not a pid with its start time and its boot.

use std::fs;
use std::io;

/// The kernel's ID of the current boot.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// When the process started, in clock ticks since the boot.
pub fn start_time(pid: u32) -> io::Result<u64> {
    parse_start_time(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
}

/// The start time of the calling process.
pub fn own_start_time() -> io::Result<u64> {
    parse_start_time(&fs::read_to_string("/proc/self/stat")?)
}

/// Field 22 of proc_pid_stat(5). Field 2 is the name in parentheses, which may hold anything.
fn parse_start_time(stat: &str) -> io::Result<u64> {
    let after_name = stat.rsplit_once(')').map(|(_, rest)| rest);
    after_name
        .and_then(|rest| rest.split_ascii_whitespace().nth(19))
        .and_then(|field| field.parse().ok())
        .ok_or_else(|| io::Error::other("/proc/PID/stat has no start time"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_mislead() {
        let fields: Vec<String> = (3..=52).map(|field| field.to_string()).collect();
        let stat = format!("7 (a) R (b c) {}\n", fields.join(" "));
        assert_eq!(parse_start_time(&stat).unwrap(), 22);
        assert!(parse_start_time("7 (a) R").is_err());
    }

    #[test]
    fn this_process_has_one_start_time() {
        assert_eq!(own_start_time().unwrap(), start_time(std::process::id()).unwrap());
        assert!(!boot_id().unwrap().is_empty());
    }
}
