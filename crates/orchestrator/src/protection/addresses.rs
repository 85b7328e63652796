//! The addresses of this machine, as Linux lists them.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4: &str = "/proc/self/net/fib_trie";
const IPV6: &str = "/proc/self/net/if_inet6";

/// The most addresses that go into a certificate: a machine with many containers has hundreds of
/// bridges, and the certificate is sent with every handshake.
const MAX_ADDRESSES: usize = 64;

/// What can be read of them; the operator adds others with `tls.names`.
pub(super) fn of_this_machine() -> Vec<IpAddr> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut all: Vec<IpAddr> = ipv4(&read(IPV4)).map(IpAddr::V4).collect();
    all.extend(ipv6(&read(IPV6)).map(IpAddr::V6));
    all.sort_unstable();
    all.dedup();
    all.truncate(MAX_ADDRESSES);
    all
}

/// Each leaf of the routing trie that is one local address: `|-- ADDRESS`, then `/32 host LOCAL`.
fn ipv4(trie: &str) -> impl Iterator<Item = Ipv4Addr> + '_ {
    let mut leaf = None;
    trie.lines().filter_map(move |line| {
        if let Some(address) = line.trim().strip_prefix("|-- ") {
            leaf = address.parse().ok();
        }
        line.trim().starts_with("/32 host LOCAL").then_some(leaf).flatten()
    })
}

/// One address a line, as 32 digits; those of one link alone are of no use to others.
fn ipv6(table: &str) -> impl Iterator<Item = Ipv6Addr> + '_ {
    table
        .lines()
        .filter_map(|line| u128::from_str_radix(line.split_whitespace().next()?, 16).ok())
        .map(Ipv6Addr::from_bits)
        .filter(|address| !address.is_unicast_link_local())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_addresses_are_found_in_the_tables() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                    Local:\n     |-- 10.0.2.15\n        /32 host LOCAL\n     |-- 10.0.2.255\n        \
                    /32 link BROADCAST\n";
        assert_eq!(ipv4(trie).collect::<Vec<_>>(), [Ipv4Addr::new(10, 0, 2, 15)]);
        let table = "fe800000000000000042acfffe110002 02 40 20 80 eth0\n\
                     fd000000000000000000000000000005 02 40 00 80 eth0\n";
        assert_eq!(ipv6(table).collect::<Vec<_>>(), ["fd00::5".parse::<Ipv6Addr>().unwrap()]);
    }

    #[test]
    fn this_machine_has_loopback() {
        assert!(of_this_machine().contains(&IpAddr::V4(Ipv4Addr::LOCALHOST)));
    }
}
