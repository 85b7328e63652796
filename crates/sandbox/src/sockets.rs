//! The sockets of this network namespace, from the kernel's tables.
//!
//! The tables of the protocols lack sockets that are not bound, or are bound and do not listen. A
//! task can pass one to another process that lives on, and which could then connect from within
//! this namespace. So the kernel's count of all sockets decides.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::thread;
use std::time::Duration;

/// A title line, then one line per socket, including sockets without a process.
const TABLES: [&str; 12] = [
    "tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6", "icmp", "icmp6", "unix",
    "packet",
];

/// The table of sockets to the kernel, which includes those of the kernel itself.
const NETLINK_TABLE: &str = "netlink";

const TIME_WAIT: &str = "06";

/// About 400 sockets; a namespace with more is not ready for the next task. The memory of this
/// program is bounded.
const MAX_TABLE_BYTES: u64 = 64 << 10;

/// The kernel counts a socket that was closed for some milliseconds longer.
const COUNTS: usize = 10;
const COUNT_AGAIN: Duration = Duration::from_millis(5);

/// The sockets that are there before any task: those of this program, and one that the Engine
/// holds to configure the namespace. All are sockets to the kernel.
pub(crate) struct Sockets {
    known: BTreeSet<u64>,
}

/// A connection that the kernel remembers without a socket: no process can use it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Lingering {
    pub(crate) is_v6: bool,
    pub(crate) local: End,
    pub(crate) remote: End,
}

/// An address and a port as in a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) address: [u8; 16],
    pub(crate) port: u16,
}

/// A socket to the kernel.
struct Netlink {
    /// Zero for sockets of the kernel itself, which it does not count.
    port: u32,
    inode: u64,
}

// === impl Sockets ===

impl Sockets {
    pub(crate) fn known() -> Self {
        let table = table(NETLINK_TABLE).unwrap_or_default().unwrap_or_default();
        Self { known: netlink(&table).into_iter().map(|socket| socket.inode).collect() }
    }

    /// The lingering connections, if nothing else is left; otherwise where something is.
    pub(crate) fn left(&self) -> Result<Vec<Lingering>, &'static str> {
        let mut lingering = Vec::new();
        for name in TABLES {
            // A kernel without the protocol has no table for it.
            let Ok(text) = table(name) else { continue };
            let text = text.ok_or(name)?;
            for line in text.lines().skip(1) {
                lingering.push(self::lingering(name, line).ok_or(name)?);
            }
        }
        let text = table(NETLINK_TABLE).ok().flatten().ok_or(NETLINK_TABLE)?;
        let sockets = netlink(&text);
        if sockets.iter().any(|socket| !self.known.contains(&socket.inode)) {
            return Err(NETLINK_TABLE);
        }
        let known = sockets.iter().filter(|socket| socket.port != 0).count();
        for _ in 0..COUNTS {
            if table("sockstat").ok().flatten().and_then(|text| count(&text)) == Some(known) {
                return Ok(lingering);
            }
            thread::sleep(COUNT_AGAIN);
        }
        Err("sockstat")
    }
}

/// None when it is too long. Names of sockets may be any bytes.
fn table(name: &str) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    let file = File::open(format!("/proc/self/net/{name}"))?;
    file.take(MAX_TABLE_BYTES).read_to_end(&mut bytes)?;
    let is_whole = (bytes.len() as u64) < MAX_TABLE_BYTES;
    Ok(is_whole.then(|| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The number of sockets of all kinds.
fn count(sockstat: &str) -> Option<usize> {
    let line = sockstat.lines().find_map(|line| line.strip_prefix("sockets: used "))?;
    line.trim().parse().ok()
}

/// A line that cannot be read stands for a socket that is not known.
fn netlink(table: &str) -> Vec<Netlink> {
    let lines = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let number = |words: &[&str], at: usize| words.get(at)?.parse::<u64>().ok();
    lines
        .map(|words| Netlink {
            port: number(&words, 2).and_then(|port| port.try_into().ok()).unwrap_or(u32::MAX),
            inode: number(&words, 9).unwrap_or(u64::MAX),
        })
        .collect()
}

/// None for a socket, or what else this is not.
fn lingering(table: &str, line: &str) -> Option<Lingering> {
    let is_v6 = match table {
        "tcp" => false,
        "tcp6" => true,
        _ => return None,
    };
    let mut words = line.split_whitespace().skip(1);
    let (local, remote) = (words.next()?, words.next()?);
    let state = words.next()?;
    (state == TIME_WAIT)
        .then(|| Some(Lingering { is_v6, local: end(local)?, remote: end(remote)? }))?
}

/// `ADDRESS:PORT` in hexadecimal digits; each 8 of the address are a number of this machine's byte
/// order.
fn end(text: &str) -> Option<End> {
    let (digits, port) = text.split_once(':')?;
    if !matches!(digits.len(), 8 | 32) {
        return None;
    }
    let mut address = [0; 16];
    for (at, bytes) in address.chunks_mut(4).enumerate().take(digits.len() / 8) {
        let number = u32::from_str_radix(digits.get(8 * at..8 * (at + 1))?, 16).ok()?;
        bytes.copy_from_slice(&number.to_ne_bytes());
    }
    Some(End { address, port: u16::from_str_radix(port, 16).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "   0: 0100007F:B9D8 020011AC:01BB 06 00000000:00000000 03:00001770 00000000";

    #[test]
    fn a_connection_in_time_wait_is_no_socket() {
        let found = lingering("tcp", LINE).unwrap();
        assert_eq!((found.local.port, found.remote.port), (0xb9d8, 443));
        if cfg!(target_endian = "little") {
            assert_eq!(found.local.address[..4], [127, 0, 0, 1]);
            assert_eq!(found.remote.address[..4], [172, 17, 0, 2]);
        }
        for state in ["01", "02", "04", "05", "07", "08", "09", "0A", "0B", ""] {
            assert_eq!(lingering("tcp", &LINE.replace(" 06 ", &format!(" {state} "))), None);
        }
        assert_eq!(lingering("udp", LINE), None, "a number means another state there");
        assert_eq!(lingering("tcp", "0: 0100007F:B9D8"), None);
        assert_eq!(lingering("tcp", &LINE.replace("0100007F", "01")), None);
    }

    #[test]
    fn addresses_of_ipv6_have_four_numbers() {
        let line = LINE.replace("0100007F", "0120000000000000000000B801000000");
        let found = lingering("tcp6", &line).unwrap();
        assert!(found.is_v6);
        if cfg!(target_endian = "little") {
            assert_eq!(found.local.address[..4], [0, 0, 0x20, 1]);
            assert_eq!(found.local.address[12..], [0, 0, 0, 1]);
        }
    }

    #[test]
    fn sockets_to_the_kernel_are_told_from_its_own() {
        let text = "sk Eth Pid Groups Rmem Wmem Dump Locks Drops Inode\n\
                    0000000072aef11e 0 4294965915 00000000 0 0 0 2 0 52775\n\
                    0000000072aef11f 0 0 00000000 0 0 0 2 0 52728\n\
                    broken\n";
        let found: Vec<_> = netlink(text).iter().map(|it| (it.port, it.inode)).collect();
        assert_eq!(found, [(4_294_965_915, 52775), (0, 52728), (u32::MAX, u64::MAX)]);
    }

    #[test]
    fn the_count_of_sockets_is_read() {
        assert_eq!(count("sockets: used 3\nTCP: inuse 1 orphan 0\n"), Some(3));
        assert_eq!(count("TCP: inuse 1\n"), None);
    }
}
