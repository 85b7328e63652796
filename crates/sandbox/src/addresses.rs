//! Ranges of addresses, and the addresses and routes of a namespace as the kernel reports them.

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::nft::Family;

/// Addresses with a common prefix, as `10.0.0.0/8`, or one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Range {
    pub(crate) address: IpAddr,
    prefix: u8,
}

// === impl Range ===

impl Range {
    pub(crate) fn family(self) -> Family {
        if self.address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        match self.address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        }
    }

    pub(crate) fn mask(self) -> Vec<u8> {
        let ones = |byte: usize| usize::from(self.prefix).saturating_sub(8 * byte);
        let mask = |ones: usize| if ones < 8 { !(0xff_u8 >> ones) } else { 0xff };
        (0..self.bytes().len()).map(|byte| mask(ones(byte))).collect()
    }
}

impl From<IpAddr> for Range {
    fn from(address: IpAddr) -> Self {
        Self { address, prefix: if address.is_ipv4() { 32 } else { 128 } }
    }
}

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let broken = || format!("'{text}' is no range of addresses");
        let (address, prefix) = text.split_once('/').unwrap_or((text, ""));
        let whole = Self::from(address.parse::<IpAddr>().map_err(|_| broken())?);
        match prefix {
            "" => Ok(whole),
            prefix => match prefix.parse() {
                Ok(prefix) if prefix <= whole.prefix => Ok(Self { prefix, ..whole }),
                _ => Err(broken()),
            },
        }
    }
}

/// Every address of the interfaces of this namespace.
pub(crate) fn own() -> BTreeSet<IpAddr> {
    let read =
        |name: &str| fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    let v4 = local_v4(&read("fib_trie")).into_iter().map(IpAddr::V4);
    let v6 = local_v6(&read("if_inet6")).into_iter().map(IpAddr::V6);
    v4.chain(v6).collect()
}

/// What every route of this namespace but the default ones leads to, and all gateways.
pub(crate) fn neighbours() -> BTreeSet<Range> {
    let read =
        |name: &str| fs::read_to_string(format!("/proc/self/net/{name}")).unwrap_or_default();
    let mut found = routes_v4(&read("route"));
    found.extend(routes_v6(&read("ipv6_route")));
    found
}

/// The name servers that this namespace uses.
pub(crate) fn resolvers(resolv_conf: &str) -> BTreeSet<IpAddr> {
    let lines = resolv_conf.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines
        .filter_map(|words| match words.as_slice() {
            // An address may have a zone, which means a link-local one.
            ["nameserver", address, ..] => address.split('%').next()?.parse().ok(),
            _ => None,
        })
        .collect()
}

/// `|-- ADDRESS`, and below it `/32 host LOCAL`.
fn local_v4(fib_trie: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last: Option<Ipv4Addr> = None;
    for line in fib_trie.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse().ok();
        } else if line.trim_end().ends_with("host LOCAL") {
            found.extend(last);
        }
    }
    found
}

/// The address in hexadecimal digits is the first word of each line.
fn local_v6(if_inet6: &str) -> Vec<Ipv6Addr> {
    if_inet6.lines().filter_map(|line| v6(line.split_whitespace().next()?)).collect()
}

fn v6(digits: &str) -> Option<Ipv6Addr> {
    let number = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32).then(|| Ipv6Addr::from(number))
}

/// Below a line of titles: the interface, then destination, gateway and mask (the eighth) as
/// numbers of this machine's byte order.
fn routes_v4(route: &str) -> BTreeSet<Range> {
    let number = |digits: &str| u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes);
    let mut found = BTreeSet::new();
    for line in route.lines().skip(1) {
        let words: Vec<_> = line.split_whitespace().collect();
        let [_, destination, gateway, _, _, _, _, mask, ..] = words.as_slice() else { continue };
        let (Some(destination), Some(gateway), Some(mask)) =
            (number(destination), number(gateway), number(mask))
        else {
            continue;
        };
        let ones: u32 = mask.iter().map(|byte| byte.leading_ones()).sum();
        let Ok(prefix) = u8::try_from(ones) else { continue };
        add(&mut found, IpAddr::V4(destination.into()), prefix, IpAddr::V4(gateway.into()));
    }
    found
}

/// Destination and its prefix, source and its prefix, gateway; in hexadecimal digits.
fn routes_v6(ipv6_route: &str) -> BTreeSet<Range> {
    let mut found = BTreeSet::new();
    for line in ipv6_route.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let [destination, prefix, _, _, gateway, ..] = words.as_slice() else { continue };
        let (Some(destination), Ok(prefix), Some(gateway)) =
            (v6(destination), u8::from_str_radix(prefix, 16), v6(gateway))
        else {
            continue;
        };
        add(&mut found, IpAddr::V6(destination), prefix, IpAddr::V6(gateway));
    }
    found
}

fn add(found: &mut BTreeSet<Range>, destination: IpAddr, prefix: u8, gateway: IpAddr) {
    if !gateway.is_unspecified() {
        found.insert(gateway.into());
    }
    if prefix > 0 {
        found.insert(Range { address: destination, prefix });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    #[test]
    fn a_range_is_an_address_and_the_length_of_its_prefix() {
        assert_eq!(range("10.0.0.0/8").mask(), [255, 0, 0, 0]);
        assert_eq!(range("172.16.0.0/12").mask(), [255, 240, 0, 0]);
        assert_eq!(range("0.0.0.0/0").mask(), [0; 4]);
        assert_eq!(range("1.2.3.4").mask(), [255; 4]);
        assert_eq!(range("fe80::/10").mask()[..3], [255, 192, 0]);
        assert_eq!(range("::1").mask(), [255; 16]);
        for broken in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/x"] {
            assert!(broken.parse::<Range>().is_err(), "{broken}");
        }
    }

    #[test]
    fn the_kernels_tables_name_addresses_and_neighbours() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 4\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     \
                    +-- 172.17.0.0/16 2 0 2\n        |-- 172.17.0.0\n           /16 link UNICAST\n        \
                    |-- 172.17.0.1\n           /32 host LOCAL\n        |-- 172.17.255.255\n           \
                    /32 link BROADCAST\n";
        assert_eq!(local_v4(trie), [Ipv4Addr::new(172, 17, 0, 1)]);
        let inet6 = "fe800000000000000042acfffe110002 02 40 20 80     eth0\n";
        assert_eq!(local_v6(inet6), ["fe80::42:acff:fe11:2".parse::<Ipv6Addr>().unwrap()]);
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
                     eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let wanted = BTreeSet::from([range("172.17.0.1"), range("172.17.0.0/16")]);
        if cfg!(target_endian = "little") {
            assert_eq!(routes_v4(table), wanted);
        }
        let zeros = "0".repeat(32);
        let six = format!(
            "{zeros} 00 {zeros} 00 fd000000000000000000000000000001 00000400 0 0 3 eth0\n\
             fd000000000000000000000000000000 40 {zeros} 00 {zeros} 00000100 0 0 1 eth0\n"
        );
        assert_eq!(routes_v6(&six), BTreeSet::from([range("fd00::1"), range("fd00::/64")]));
    }

    #[test]
    fn name_servers_are_read_from_their_file() {
        let file = "# generated\nsearch example\nnameserver 10.0.0.2\nnameserver fe80::1%eth0\n";
        let wanted: BTreeSet<IpAddr> = ["10.0.0.2", "fe80::1"].map(|it| it.parse().unwrap()).into();
        assert_eq!(resolvers(file), wanted);
    }
}
